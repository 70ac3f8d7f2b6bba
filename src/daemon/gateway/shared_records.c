// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/shared_records.h"

#include "daemon/gateway/gateway.h"
#include "hook/hook_shared.h"
#include "node/sealed_records.h"
#include "secret/secret_shared.h"

struct walk {
	void (*fn)(const struct node_sealed *what, void *fn_arg);
	void *arg;
};

static int take_secret(const struct node_sealed *what, struct err *err, void *arg)
{
	const struct gateway *g = arg;

	return secrets_take(g->secrets,
	                    &(struct secret_arrival){.record_id = what->id,
	                                             .project_id = what->project_id,
	                                             .version = what->version,
	                                             .changed_us = what->changed_us,
	                                             .content = what->content},
	                    err);
}

static char *describe_secret(const char *project_id, const char *id, void *arg)
{
	const struct gateway *g = arg;

	return secrets_describe(g->secrets, project_id, id);
}

static void on_secret(const struct secret_arrival *one, void *arg)
{
	const struct walk *w = arg;

	w->fn(&(struct node_sealed){.kind = "secret",
	                            .id = one->record_id,
	                            .project_id = one->project_id,
	                            .version = one->version,
	                            .changed_us = one->changed_us},
	      w->arg);
}

static void each_secret(void (*fn)(const struct node_sealed *what, void *fn_arg), void *fn_arg,
                        void *arg)
{
	const struct gateway *g = arg;
	struct walk w = {fn, fn_arg};

	secrets_each_of_all(g->secrets, on_secret, &w);
}

static void forget_secrets(const char *project_id, void *arg)
{
	const struct gateway *g = arg;

	secrets_forget(g->secrets, project_id);
}

static int take_hook(const struct node_sealed *what, struct err *err, void *arg)
{
	const struct gateway *g = arg;

	return hooks_take(g->senders.hooks,
	                  &(struct hook_arrival){.id = what->id,
	                                         .project_id = what->project_id,
	                                         .changed_us = what->changed_us,
	                                         .content = what->content},
	                  err);
}

static char *describe_hook(const char *project_id, const char *id, void *arg)
{
	const struct gateway *g = arg;

	return hooks_describe(g->senders.hooks, project_id, id);
}

static void on_hook(const struct hook_arrival *one, void *arg)
{
	const struct walk *w = arg;

	w->fn(&(struct node_sealed){.kind = "webhook",
	                            .id = one->id,
	                            .project_id = one->project_id,
	                            .version = 1,
	                            .changed_us = one->changed_us},
	      w->arg);
}

static void each_hook(void (*fn)(const struct node_sealed *what, void *fn_arg), void *fn_arg,
                      void *arg)
{
	const struct gateway *g = arg;
	struct walk w = {fn, fn_arg};

	hooks_each_of_all(g->senders.hooks, on_hook, &w);
}

static void forget_hooks(const char *project_id, void *arg)
{
	const struct gateway *g = arg;

	hooks_forget(g->senders.hooks, project_id);
}

static void on_key(const uint8_t key[32], void *arg)
{
	const struct gateway *g = arg;

	hooks_set_node(g->senders.hooks, node_number(g->node));
	node_take_key(g->node, key);
}

static void ask_key(void *arg)
{
	const struct gateway *g = arg;

	fleet_ask_cluster_key(g->fleet, on_key, arg);
}

void shared_records_open(struct gateway *g)
{
	static const struct node_sealed_kind secret_kind = {
		.kind = "secret",
		.take = take_secret,
		.describe = describe_secret,
		.each = each_secret,
		.forget = forget_secrets,
	};
	static const struct node_sealed_kind hook_kind = {
		.kind = "webhook",
		.take = take_hook,
		.describe = describe_hook,
		.each = each_hook,
		.forget = forget_hooks,
	};

	if (!g->node)
		return;
	hooks_set_node(g->senders.hooks, g->node_number);
	node_has_sealed(g->node, &secret_kind, g);
	node_has_sealed(g->node, &hook_kind, g);
	node_on_key_wanted(g->node, ask_key, g);
}
