// SPDX-License-Identifier: Apache-2.0
/* A request that has to wait for its image waits for the pull, however many others do. A client
 * that leaves changes nothing for the pull: the next one finds what it has made. */
#include "api/templates/image.h"

#include "api/frame/access.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/templates/template_fetch.h"
#include "base/clock.h"
#include "build/transfer/image_find.h"
#include "sandbox/storage/template.h"

#include <string.h>

struct hold {
	struct http_req *req;
	struct image_wait wait;
};

static void on_client_done(void *arg)
{
	struct hold *hold = arg;

	image_wait_remove(&hold->wait);
	free(hold);
}

static void on_pulled(const struct err *failed, void *arg)
{
	struct hold *hold = arg;
	struct http_req *req = hold->req;
	struct err err;

	http_on_done(req, NULL, NULL);
	free(hold);
	access_enter_again(req); /* what it does now is its caller's, as before */
	if (failed)
		http_reply_err(req, failed);
	else if (http_route(req)->fn(req, &err) < 0)
		http_reply_err(req, &err);
	access_leave(req);
}

int await_image(struct http_req *req, const struct image_wish *wish, struct template **ret,
                struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct hold *hold = xnew0(struct hold);
	int r;

	*hold = (struct hold){.req = req, .wait = {.fn = on_pulled, .arg = hold}};
	list_init(&hold->wait.link);
	r = image_find(api->builds, wish, ret, &hold->wait, err);
	if (r == 1)
		http_on_done(req, on_client_done, hold);
	else
		free(hold);
	return r;
}

/* "always": what was pulled after the request had come, which may have waited for that. */
static uint64_t oldest_us(const struct http_req *req, const char *pull)
{
	const uint64_t now_us = clock_wall_us();

	if (!pull)
		return now_us - IMAGE_FRESH_US;
	return strcmp(pull, "always") == 0 ? now_us - (clock_steady_us() - http_begun_us(req)) : 0;
}

int find_pulled(struct http_req *req, struct sandbox_spec *spec, struct err *err)
{
	const struct image_wish wish = {.project_id = caller_project(req),
	                                .ref = spec->image_ref,
	                                .field = "image",
	                                .oldest_us = oldest_us(req, spec->image_pull)};
	struct template *t = NULL;
	int r = 0;

	if (spec->image_ref)
		r = await_image(req, &wish, &t, err);
	else if (spec->snapshot)
		r = await_snapshot(req, spec->snapshot, err);
	else if (!spec->image)
		r = await_template(req, spec->template, err);
	if (r == 0 && t)
		spec->template = template_name(t);
	return r;
}
