// SPDX-License-Identifier: Apache-2.0
/*
 * Ids whose tag's node is silent: the directory is asked, once a request, whether another node has
 * the sandbox, or whether it has ended with its node.
 *
 * No caller has shown a key yet, so the questions have a bound: UNDER_WAY_MAX at a time, and BUDGET
 * in a second. What is above it gets the answer that is right without the directory: the node does
 * not answer.
 */
#include "base/clock.h"
#include "base/json/json.h"
#include "base/units.h"
#include "daemon/gateway/hop/hop_private.h"

#include <stdio.h>
#include <string.h>

#define UNDER_WAY_MAX 16
#define BUDGET        40 /* questions in a second */
#define PRICE_US      (SECOND_US / BUDGET)
#define BURST_US      SECOND_US

struct hop_directory {
	struct hops *hops;
	struct http_req *req; /* NULL: its client is gone */
	struct route route;
	struct route_facts facts;
	char id[ID_SIZE];
};

static void on_gone(void *arg)
{
	((struct hop_directory *)arg)->req = NULL;
}

static const char *node_name(const struct hops *h, uint32_t node)
{
	const struct cluster_node_row *row = cluster_link_node(h->config.link, node);

	return row ? row->name : "?";
}

/* 1: it is passed on. */
static int decide(struct hop_directory *w, uint32_t node, bool is_lost, struct err *err)
{
	const uint32_t tagged = w->facts.tagged;
	uint32_t to = 0;

	if (is_lost && (node == tagged || node == 0)) {
		(void)err_set(err, node ? ERR_GONE : ERR_NOT_FOUND, 0,
		              node ? "sandbox %s has ended: its node '%s' was silent for too long"
		                   : "no '%s': its node '%s' was lost",
		              w->id, node_name(w->hops, tagged));
		return err_hint(err, "create a new one; `cloche node ls` shows which nodes are up");
	}
	if (node != 0 && node != tagged &&
	    route_told(&w->route, &w->facts, node, &to) == ROUTE_HOP) {
		hop_request_start(w->hops, w->req, &w->route, &w->facts, to, NULL, NULL);
		return 1;
	}
	/* Nobody else has it, and the silent node may have made it just before. */
	hop_refuse_unreachable(err, w->hops, node ? node : tagged,
	                       "the cluster's database has not heard of it");
	return -EHOSTUNREACH;
}

static void on_answer(const json_t *answer, const struct err *failure, void *arg)
{
	struct hop_directory *w = arg;
	const json_t *node = json_object_get(answer, "node");
	const json_int_t number = json_integer_value(node);
	struct err err;
	int r = 0;

	w->hops->n_wheres--;
	if (w->req) {
		http_on_done(w->req, NULL, NULL);
		if (failure || number < 0 || number > INT32_MAX)
			r = decide(w, w->facts.tagged, false, &err);
		else
			r = decide(w, (uint32_t)number,
			           json_is_true(json_object_get(answer, "is_lost")), &err);
	}
	if (r < 0)
		http_reply_err(w->req, &err);
	free(w);
}

int hop_directory_ask(struct hops *h, struct http_req *req, const char *id,
                      const struct route *route, const struct route_facts *facts)
{
	const uint64_t now = clock_steady_us();
	auto_json json_t *call = NULL;
	struct hop_directory *w;

	if (strncmp(id, "sb_", 3) != 0 || h->n_wheres >= UNDER_WAY_MAX ||
	    h->wheres_owed_us > now + BURST_US || node_check(h->config.node, NULL) < 0)
		return 0;
	h->wheres_owed_us = MAX(h->wheres_owed_us, now) + PRICE_US;
	h->n_wheres++;
	w = xnew0(struct hop_directory);
	*w = (struct hop_directory){.hops = h, .req = req, .route = *route, .facts = *facts};
	(void)snprintf(w->id, sizeof(w->id), "%s", id);
	http_on_done(req, on_gone, w);
	call = json_pack("{ss ss sI}", "call", "where", "id", id, "tagged",
	                 (json_int_t)facts->tagged);
	node_call(h->config.node, call, on_answer, w);
	return 1;
}
