// SPDX-License-Identifier: Apache-2.0
/*
 * Idempotency keys of batches in a cluster. In the whole cluster one batch has a key. A request
 * with the same key on another node is passed on to the node of that batch. The key is written down
 * here before it is taken in the cluster, so the next gateway can give it back (node/names.c).
 */
#include "api/frame/find.h"
#include "api/frame/idempotency.h"
#include "api/frame/late_reply.h"
#include "api/sandboxes/batch.h"
#include "sandbox/model/idempotency.h"

struct key_taking {
	struct late_reply late;
	struct fleet *fleet;
	struct node *node;
	char id[ID_SIZE];
};

static const char key_is_taken[] = "taken"; /* state of a request whose batch is new */

static void on_key_taken(const struct err *err, void *arg)
{
	const struct key_taking t = *(struct key_taking *)arg;
	struct http_req *req = late_reply_take(arg, NULL);
	const struct api *api = req ? http_app_arg(req) : NULL;
	struct err failure;
	int r;

	if (err || !req) {
		idempotency_drop(t.fleet, t.id);
		if (!err)
			node_give(t.node, t.id, /* with_key= */ true);
	}
	if (!req)
		return;
	if (!err) {
		http_set_state(req, unconst(key_is_taken));
		http_go_on(req);
		return;
	}
	failure = *err;
	r = api->place && err->errnum == NODE_MADE_ELSEWHERE ? api->place(req, err, &failure) : 0;
	if (r <= 0)
		http_reply_err(req, &failure);
}

bool batch_key_is_taken(const struct http_req *req)
{
	return http_state(req) == key_is_taken;
}

int batch_take_key(struct http_req *req, const struct idempotency_key *key, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct key_taking *t = late_reply_new(req, sizeof(*t));
	int r;

	t->fleet = api->fleet;
	t->node = api->node;
	id_make_tagged(t->id, "bt");
	r = idempotency_put(api->fleet, caller_project(req), key, t->id, err);
	if (r < 0)
		return late_reply_drop(t, r);
	node_take(api->node,
	          &(struct node_taking){.project_id = caller_project(req),
	                                .sandbox_id = t->id,
	                                .key = key->key,
	                                .digest = key->digest},
	          on_key_taken, t);
	return 1;
}
