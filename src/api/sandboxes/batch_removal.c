// SPDX-License-Identifier: Apache-2.0
/* The end of a whole batch: of those that have its tag, and of what it still waits for. */
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/sandboxes/batch.h"
#include "sandbox/model/batch_tag.h"

#include <stdio.h>

struct batch_removal {
	struct late_reply late;
	char id[ID_SIZE];
	size_t n_left, n;
};

static void on_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	struct batch_removal *d = arg;
	struct http_req *req;
	struct json_writer *w;
	struct reply reply;

	(void)s;
	(void)err; /* the fleet goes on trying, and has logged it */
	if (--d->n_left > 0)
		return;
	req = d->late.req;
	if (req) {
		w = reply_begin(&reply);
		json_put_str(w, "batch_id", d->id);
		json_put_u64(w, "deleted", d->n);
		reply_send_late(&reply, req, 200);
	}
	(void)late_reply_take(d, NULL);
}

struct found {
	struct sandbox *at[BATCH_MAX];
	size_t n;
};

static void add_found(struct sandbox *s, void *arg)
{
	struct found *found = arg;

	if (found->n < BATCH_MAX)
		found->at[found->n++] = s;
}

int delete_batch(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "batch");
	const struct sandbox_filter filter = {.project_id = caller_project(req),
	                                      .tag_name = BATCH_TAG,
	                                      .tag_value = id,
	                                      .limit = BATCH_MAX};
	struct found found = {.n = 0};
	struct batch_removal *d;
	bool has_more;
	const bool was_active = batch_stop(api, caller_project(req), id);

	(void)fleet_list(api->fleet, &filter, add_found, &found, &has_more);
	if (found.n == 0 && !was_active)
		return err_set(err, ERR_NOT_FOUND, 0, "no batch '%s' has sandboxes", id);
	d = late_reply_new(req, sizeof(*d));
	(void)snprintf(d->id, sizeof(d->id), "%s", id);
	d->n = found.n;
	d->n_left = found.n + 1; /* this call itself, so that the last one replies */
	for (size_t i = 0; i < found.n; i++)
		sandbox_delete(found.at[i], END_DELETED, on_deleted, d);
	on_deleted(NULL, NULL, d);
	return 0;
}
