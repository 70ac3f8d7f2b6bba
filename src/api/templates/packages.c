// SPDX-License-Identifier: Apache-2.0
/*
 * A request that has to wait for its packages watches their build, however many others do. A client
 * that leaves changes nothing for the build: the next one finds what it has made.
 */
#include "api/templates/packages.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "build/recipe/package.h"
#include "build/set.h"
#include "sandbox/code/language.h"
#include "sandbox/storage/template.h"

struct hold {
	struct http_req *req;
	struct build_watch watch;
};

static void hold_free(struct hold *hold)
{
	build_watch_remove(&hold->watch);
	free(hold);
}

static void on_client_done(void *arg)
{
	hold_free(arg);
}

static void on_build(struct build *b, void *arg)
{
	struct hold *hold = arg;
	struct http_req *req = hold->req;
	struct err err;

	if (b && !build_is_over(b))
		return;
	http_on_done(req, NULL, NULL);
	hold_free(hold);
	if (b && build_state(b) == BUILD_READY) {
		if (http_route(req)->fn(req, &err) < 0)
			http_reply_err(req, &err);
	} else if (b && build_state(b) == BUILD_FAILED) {
		http_reply_err(req, build_error(b));
	} else {
		(void)err_set(&err, ERR_CONFLICT, 0, "the build of its packages was cancelled");
		http_reply_err(req, &err);
	}
}

static void wait_for(struct http_req *req, struct build *b)
{
	struct hold *hold = xnew0(struct hold);

	*hold = (struct hold){.req = req, .watch = {.fn = on_build, .arg = hold}};
	build_watch_add(b, &hold->watch);
	http_on_done(req, on_client_done, hold);
}

int find_packages(struct http_req *req, struct sandbox_spec *spec, const char *language,
                  struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct set_wish wish = {.project_id = caller_project(req),
	                              .template = spec->template,
	                              .language = language,
	                              .packages = spec->packages};
	struct template *set = NULL;
	struct build *b;
	int r;

	if (!spec->packages)
		return 0;
	r = set_find(api->builds, &wish, &set, &b, err);
	if (r == 1)
		wait_for(req, b);
	spec->set = set;
	return r;
}

int prepare_packages(struct http_req *req, const json_t *body, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct set_wish wish = {.project_id = caller_project(req)};
	const struct json_field fields[] = {
		{"packages", JSON_FIELD_ARRAY, &wish.packages, true, .min = 1, .max = PACKAGES_MAX},
		{"template", JSON_FIELD_STRING, &wish.template, .min = 1, .max = 64},
		{"language", JSON_FIELD_STRING, &wish.language, .min = 1},
	};
	const struct language *language = NULL;
	struct template *set = NULL;
	struct reply reply;
	struct build *b;
	int r = json_read(body, "", fields, ARRAY_SIZE(fields), err);

	if (r == 0 && wish.language)
		r = language_check(wish.language, "language", &language, err);
	if (r == 0 && language)
		wish.language = language->name;
	if (r == 0)
		r = set_find(api->builds, &wish, &set, &b, err);
	if (r < 0)
		return r;
	if (r == 0)
		set_to_json(set, reply_begin_bare(&reply), NULL);
	else
		build_to_json(b, reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, r == 0 ? 200 : 202, err);
}
