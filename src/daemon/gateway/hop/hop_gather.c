// SPDX-License-Identifier: Apache-2.0
/*
 * All are asked at once, and whoever has not answered ANSWER_US later is left out, with that as the
 * reason. A node that the cluster does not hear of is not asked: nobody waits for a dead machine
 * twice.
 *
 * A project has GATHERS_OF_PROJECT of them under way, all have GATHERS_TOTAL: each costs every node
 * a request, and this one some memory.
 */
#include "daemon/gateway/hop/hop_gather.h"

#include "api/account/login.h"
#include "api/frame/find.h"
#include "base/list.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/units.h"
#include "daemon/gateway/hop/hop_ask.h"
#include "daemon/gateway/hop/hop_private.h"
#include "tenant/key.h"

#include <stdio.h>
#include <string.h>

#define ANSWER_US          (4 * SECOND_US) /* a handshake with a machine that is gone takes 3 s */
#define GATHERS_TOTAL      64
#define GATHERS_OF_PROJECT 16
#define RETRY_AFTER_MS     500

struct gather;

struct gather_part {
	struct gather *gather;
	struct hop_ask *ask; /* NULL: it is answered */
};

struct gather {
	struct list link;
	struct hops *hops;
	char project_id[ID_SIZE];
	char self[PEER_NAME_SIZE];
	const char *unsure;
	peers_fn fn;
	void *arg;
	struct loop_timer *timer;
	size_t n, n_open;
	struct peer_answer *answers;
	struct gather_part *parts;
};

static void refuse(struct peer_answer *a, const char *why)
{
	(void)snprintf(a->why, sizeof(a->why), "%s", why);
}

static void drop(struct gather *g)
{
	list_remove(&g->link);
	loop_timer_free(g->timer);
	for (size_t i = 0; i < g->n; i++) {
		hop_ask_free(g->parts[i].ask);
		json_decref(g->answers[i].body);
	}
	free(g->answers);
	free(g->parts);
	free(g);
}

static void finish(struct loop *loop, void *arg)
{
	struct gather *g = arg;
	const struct peer_answers answers = {
		.self = g->self, .at = g->answers, .n = g->n, .unsure = g->unsure};

	(void)loop;
	for (size_t i = 0; i < g->n; i++) {
		if (g->parts[i].ask)
			refuse(&g->answers[i], "it has not answered in time");
		if (g->answers[i].why[0])
			log_debug("gateway.gather_part", "node='%s' why='%s'", g->answers[i].name,
			          g->answers[i].why);
	}
	g->fn(&answers, g->arg);
	drop(g);
}

static void on_answer(json_t *body, const struct http_head *head, const char *why, void *arg)
{
	struct gather_part *part = arg;
	struct gather *g = part->gather;
	struct peer_answer *a = &g->answers[part - g->parts];
	const char *token = body ? http_head_find(head, "X-Next-Token") : NULL,
		   *total = body ? http_head_find(head, "X-Total-Running") : NULL;

	if (body)
		a->body = json_incref(body);
	else
		refuse(a, why);
	a->has_more = token && token[0];
	if (total && parse_u64(total, UINT32_MAX, &a->total) < 0)
		a->total = 0;
	hop_ask_free(take_ptr(part->ask));
	if (--g->n_open == 0)
		loop_timer_set_in(g->timer, 0); /* fn is never called from inside */
}

bool hop_is_known_elsewhere(const struct hops *h, const struct http_req *req)
{
	const struct key *key = http_user(req);

	return key && !key_person(key) && key != keyring_root(h->config.keyring) &&
	       !login_is_by_cookie(req);
}

static const char *why_not_ask(const struct hops *h, const struct http_req *req, size_t n_others,
                               const struct cluster_node_row *row)
{
	if (!row->is_alive)
		return "it is silent";
	if (n_others > GATHER_MAX)
		return "there are too many nodes to ask each";
	if (!hop_is_known_elsewhere(h, req))
		return "it knows callers by keys alone: logins and callers of the unix socket are "
		       "another node's own";
	return NULL;
}

static int check_room(const struct hops *h, const char *project_id, struct err *err)
{
	size_t n = 0, n_own = 0;

	list_for_each (h->gathers, const struct gather, g, link) {
		n++;
		n_own += strcmp(g->project_id, project_id) == 0;
	}
	if (n < GATHERS_TOTAL && n_own < GATHERS_OF_PROJECT)
		return 0;
	(void)err_set(err, ERR_LIMIT, 0, "too many lists of %s are being gathered from all nodes",
	              n_own < GATHERS_OF_PROJECT ? "all projects" : "this project");
	err->quota.retry_after_ms = RETRY_AFTER_MS;
	return err_hint(err, "try again a little later, and ask less often or with a larger limit");
}

static void ask_all(struct gather *g, const struct http_req *req, const char *words)
{
	const struct cluster_link *l = g->hops->config.link;
	const size_t n_others = l->n_nodes - 1;

	for (size_t i = 0; i < l->n_nodes && g->n < n_others; i++) {
		const struct cluster_node_row *row = &l->nodes[i];
		struct peer_answer *a = &g->answers[g->n];
		struct gather_part *part = &g->parts[g->n];
		const char *why = why_not_ask(g->hops, req, n_others, row);

		if (row->node == l->word.node)
			continue;
		g->n++;
		a->node = row->node;
		part->gather = g;
		(void)snprintf(a->name, sizeof(a->name), "%s", row->name);
		if (why) {
			refuse(a, why);
			continue;
		}
		g->n_open++;
		part->ask = hop_ask_new(g->hops, req, row->node, words, on_answer, part);
	}
}

/* words: of a question whether they have something; NULL: all that the request asks. */
static int begin(struct hops *h, struct http_req *req, const char *words, peers_fn fn, void *arg,
                 struct err *err)
{
	const struct cluster_link *l = h->config.link;
	const struct cluster_node_row *self = cluster_link_node(l, l->word.node);
	struct gather *g;
	int r;

	if (!node_is_in(h->config.node) || (l->n_nodes == 0 && l->word.node == 0))
		return 0;
	r = check_room(h, caller_project(req), err);
	if (r < 0)
		return r;
	g = xnew0(struct gather);
	g->hops = h;
	g->fn = fn;
	g->arg = arg;
	g->unsure = l->n_nodes == 0 ? "this node does not know the others yet"
	            : node_state(h->config.node) != FENCE_HELD
	                    ? "this node does not reach the cluster's database: others may have "
	                      "joined"
	                    : "";
	(void)snprintf(g->project_id, sizeof(g->project_id), "%s", caller_project(req));
	(void)snprintf(g->self, sizeof(g->self), "%s", self ? self->name : "");
	g->answers = xnew0n(struct peer_answer, l->n_nodes + 1);
	g->parts = xnew0n(struct gather_part, l->n_nodes + 1);
	g->timer = loop_timer_new(h->config.loop, finish, g);
	list_init(&g->link);
	list_append(h->gathers, &g->link);
	if (self && l->n_nodes > 1)
		ask_all(g, req, words);
	loop_timer_set_in(g->timer, g->n_open ? ANSWER_US : 0);
	return 1;
}

int hops_gather(struct hops *h, struct http_req *req, peers_fn fn, void *arg, struct err *err)
{
	if (http_hop_from(req) || http_req_method(req) != HTTP_GET)
		return 0;
	return begin(h, req, /* words= */ NULL, fn, arg, err);
}

int hop_gather_find(struct hops *h, struct http_req *req, const char *words, peers_fn fn, void *arg,
                    struct err *err)
{
	return hop_is_known_elsewhere(h, req) ? begin(h, req, words, fn, arg, err) : 0;
}

void hop_gathers_drop(struct hops *h)
{
	list_for_each (h->gathers, struct gather, g, link)
		drop(g);
}
