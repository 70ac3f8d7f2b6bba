// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "node/node_private.h"
#include "node/usage_telling.h"

#include <string.h>

#define RETRY_AFTER_MS 2000 /* a beat */

struct node *node_new(const struct node_config *config)
{
	struct node *n = xnew0(struct node);

	n->config = *config;
	n->n_rewinds = UINT32_MAX;
	n->records = records_new(n);
	n->names = names_new(n);
	n->lookup = name_lookup_new(n);
	n->telling = telling_new(n);
	n->usage = usage_telling_new(n);
	n->leases = leases_new(n);
	n->owned = owned_new(n);
	n->lost = lost_new(n);
	return n;
}

void node_free(struct node *n)
{
	if (!n)
		return;
	lost_free(n->lost);
	owned_free(n->owned);
	leases_free(n->leases);
	usage_telling_free(n->usage);
	telling_free(n->telling);
	name_lookup_free(n->lookup);
	names_free(n->names);
	records_free(n->records);
	json_decref(n->objects);
	free(n);
}

/* The member has found that the database knows less than it has acknowledged. */
static void note_rewind(struct node *n)
{
	struct json_writer *w;
	struct event e;

	if (n->word.n_rewinds == n->n_rewinds)
		return;
	if (n->n_rewinds != UINT32_MAX && n->word.n_rewinds > n->n_rewinds) {
		log_warn("cluster.rewound", "message='the database was set back: it has lost "
		                            "what it had acknowledged, and is told again'");
		if (n->config.events) {
			w = event_begin(&e, n->config.events, EVENT_CLUSTER_REWOUND, NULL, NULL);
			json_put_u64(w, "node", n->word.node);
			event_end(&e);
		}
	}
	n->n_rewinds = n->word.n_rewinds;
}

/* A member that has gone is followed by another: the node stays one of its cluster meanwhile. */
void node_told(struct node *n, const struct cluster_word *word)
{
	const uint32_t was = n->word.node;

	if (word) {
		n->word = *word;
		n->has_word = true;
		if (word->node == 0) /* its files cannot be read: it is no other node for that */
			n->word.node = was;
	} else if (n->has_word && n->word.state == FENCE_HELD) {
		n->word.state = FENCE_FENCED;
	}
	lost_on_word(n->lost);
	note_rewind(n);
	records_on_word(n->records);
	names_look(n->names);
	name_lookup_look(n->lookup);
	telling_look(n->telling);
	leases_on_word(n->leases);
	owned_look(n->owned);
}

void node_on_unused_project(struct node *n, void (*fn)(const char *id, void *arg), void *arg)
{
	n->unused_project = fn;
	n->unused_project_arg = arg;
}

bool node_is_in(const struct node *n)
{
	return n && (!n->has_word || n->word.node != 0);
}

uint32_t node_number(const struct node *n)
{
	return n->word.node;
}

enum fence_state node_state(const struct node *n)
{
	return (enum fence_state)n->word.state;
}

int node_refuse(struct err *err, const char *why)
{
	(void)err_set(err, ERR_CLUSTER, 0, "the cluster cannot agree on it now: %.200s", why);
	if (err)
		err->quota.retry_after_ms = RETRY_AFTER_MS;
	return err_hint(err, "try again a little later; calls to sandboxes and creates without a "
	                     "name go on, and `cloche cluster status` on this node says more");
}

int node_check(const struct node *n, struct err *err)
{
	if (fence_allows(node_state(n), FENCE_AGREE))
		return 0;
	return node_refuse(err, n->word.message[0] ? n->word.message
	                                           : "this node does not reach the database");
}

void node_call(struct node *n, const json_t *call, node_answer_fn fn, void *arg)
{
	n->config.call(call, fn, arg, n->config.link);
}

uint32_t node_n_compares(const struct node *n)
{
	return n->word.n_compares;
}

static void on_objects_told(const json_t *answer, const struct err *err, void *arg)
{
	struct node *n = arg;
	json_t *figures = json_object_get(answer, "figures");

	n->is_telling_objects = false;
	if (err || !json_is_object(figures))
		return;
	json_decref(n->objects);
	n->objects = json_incref(figures);
}

void node_tell_objects(struct node *n, uint32_t n_compares)
{
	auto_json json_t *call =
		json_pack("{ss sI}", "call", "tell_objects", "n_compares", (json_int_t)n_compares);

	if (n->is_telling_objects)
		return;
	n->is_telling_objects = true;
	node_call(n, call, on_objects_told, n);
}

const json_t *node_objects(const struct node *n)
{
	return n ? n->objects : NULL;
}

const char *node_result(const json_t *answer)
{
	const char *result = json_string_value(json_object_get(answer, "result"));

	return result ? result : "";
}
