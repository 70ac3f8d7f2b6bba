// SPDX-License-Identifier: Apache-2.0
/* As with images of a registry (image.c): whoever leaves changes nothing for the others. */
#include "api/templates/template_fetch.h"

#include "api/frame/access.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/templates/templates.h"
#include "build/shared/shared_snapshot.h"

struct hold {
	struct http_req *req;
	struct shared_wait wait;
};

static void on_client_done(void *arg)
{
	struct hold *hold = arg;

	shared_wait_remove(&hold->wait);
	free(hold);
}

/* A snapshot that is not durable is there all the same, on a node that is not reached. */
static bool is_with_its_node(struct http_req *req, const struct err *failed, struct err *err)
{
	const struct api *api = http_app_arg(req);

	return failed->code == ERR_NOT_FOUND && api->place && api->place(req, failed, err) < 0;
}

static void on_fetched(const struct err *failed, void *arg)
{
	struct hold *hold = arg;
	struct http_req *req = hold->req;
	struct err err;

	http_on_done(req, NULL, NULL);
	free(hold);
	access_enter_again(req);
	if (failed && is_with_its_node(req, failed, &err))
		http_reply_err(req, &err);
	else if (failed)
		http_reply_err(req, failed);
	else if (http_route(req)->fn(req, &err) < 0)
		http_reply_err(req, &err);
	access_leave(req);
}

int await_template(struct http_req *req, const char *word, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct hold *hold = xnew0(struct hold);
	int r;

	*hold = (struct hold){.req = req, .wait = {.fn = on_fetched, .arg = hold}};
	list_init(&hold->wait.link);
	r = shared_template_find(api->fleet, caller_project(req), word, check_manifest, &hold->wait,
	                         err);
	if (r == 1)
		http_on_done(req, on_client_done, hold);
	else
		free(hold);
	return r;
}

int await_snapshot(struct http_req *req, const char *word, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct shared_snapshot_id ref = {.project_id = caller_project(req),
	                                       .snapshot_id = word};
	struct hold *hold;
	int r;

	if (!shared_snapshot_may_come(api->builds, &ref)) /* then the create says what is wrong */
		return 0;
	hold = xnew0(struct hold);
	*hold = (struct hold){.req = req, .wait = {.fn = on_fetched, .arg = hold}};
	list_init(&hold->wait.link);
	r = shared_snapshot_fetch(api->builds, &ref, &hold->wait, err);
	if (r == 1)
		http_on_done(req, on_client_done, hold);
	else
		free(hold);
	return r;
}
