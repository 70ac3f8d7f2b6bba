// SPDX-License-Identifier: Apache-2.0
/*
 * Before a secret is removed without force: whether the policy of a sandbox refers to it. Each node
 * knows its own sandboxes, so all are asked at the same time. One that does not answer may have
 * one: then the secret stays.
 */
#include "api/frame/find.h"
#include "daemon/gateway/hop/hop_find.h"
#include "daemon/gateway/hop/hop_gather.h"
#include "daemon/gateway/hop/hop_private.h"
#include "net/policy/secret_reference.h"

#include <stdio.h>

struct secret_call {
	char name[SECRET_NAME_SIZE];
	void (*fn)(const struct err *err, void *arg);
	void *arg;
};

static int refuse_used(const struct secret_call *c, const struct peer_answer *a, struct err *err)
{
	(void)err_set(err, ERR_CONFLICT, 0,
	              "policies of sandboxes on the node '%s' refer to secret '%.64s'", a->name,
	              c->name);
	return err_hint(err, "end them or change their policies first; or remove it with force: "
	                     "what those rules allow is denied then");
}

static int refuse_silent(const struct secret_call *c, const struct peer_answer *a, struct err *err)
{
	(void)err_set(err, ERR_NODE_UNREACHABLE, 0,
	              "whether sandboxes on the node '%s' use secret '%.64s' is not known: %s",
	              a->name, c->name, a->why[0] ? a->why : "its answer has another shape");
	return err_hint(err, "try again when that node answers: `cloche node ls` tells which are "
	                     "up; or remove it with force");
}

static int judge(const struct secret_call *c, const struct peer_answers *answers, struct err *err)
{
	const struct peer_answer *silent = NULL;

	for (size_t i = 0; i < answers->n; i++) {
		const struct peer_answer *a = &answers->at[i];
		const json_t *has = json_object_get(a->body, "has");

		if (json_array_size(has) != 1)
			silent = a;
		else if (json_is_true(json_array_get(has, 0)))
			return refuse_used(c, a, err);
	}
	if (silent)
		return refuse_silent(c, silent, err);
	/* Who is removed must be known to all, so the database is needed anyway. */
	return answers->unsure[0] ? node_refuse(err, answers->unsure) : 0;
}

static void on_answers(const struct peer_answers *answers, void *arg)
{
	struct secret_call *c = arg;
	struct err err = {0};

	c->fn(judge(c, answers, &err) < 0 ? &err : NULL, c->arg);
	free(c);
}

int hops_ask_secret_users(struct hops *h, struct http_req *req, const char *name,
                          void (*fn)(const struct err *err, void *arg), void *arg, struct err *err)
{
	char word[SECRET_NAME_SIZE + 16];
	struct secret_call *c;
	int r;

	if (!node_is_in(h->config.node))
		return 0;
	if (!hop_is_known_elsewhere(h, req) && h->config.link->n_nodes > 1) {
		(void)err_set(err, ERR_CONFLICT, 0,
		              "whether sandboxes on other nodes use secret '%.64s' is not known: "
		              "they can be asked with a key only",
		              name);
		return err_hint(err, "set CLOCHE_API_KEY to a key, then all nodes are asked; or "
		                     "remove it with force");
	}
	(void)snprintf(word, sizeof(word), "%s/%s", hop_kind_name(HOP_SECRET_USER), name);
	c = xnew0(struct secret_call);
	*c = (struct secret_call){.fn = fn, .arg = arg};
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	r = hop_gather_find(h, req, word, on_answers, c, err);
	if (r <= 0)
		free(c);
	return r;
}
