// SPDX-License-Identifier: Apache-2.0
#include "api/frame/find.h"

#include "api/templates/image.h"
#include "api/templates/template_fetch.h"
#include "base/clock.h"
#include "compat/vercel/wire.h"
#include "sandbox/storage/template.h"

#include <stdio.h>
#include <string.h>

#define THEIR_REGISTRY "vcr.vercel.com/" /* which gives its images to Vercel's customers alone */

struct vercel *vercel_of(const struct http_req *req)
{
	const struct api *api = http_app_arg(req);

	return api->vercel;
}

const char *space_of(const struct http_req *req)
{
	const char *space = http_query(req, "projectId");

	if (!space)
		space = http_query(req, "project");
	return space ? space : "";
}

struct vercel_sandbox *vercel_sandbox_find(struct vercel *v, const char *project_id,
                                           const char *space, const char *name)
{
	list_for_each (&v->sandboxes, struct vercel_sandbox, box, link)
		if (!box->is_doomed && !box->is_unnamed && strcmp(box->name, name) == 0 &&
		    strcmp(box->space, space) == 0 && strcmp(box->project_id, project_id) == 0)
			return box;
	return NULL;
}

/* Only Vercel's registry knows the image of a digest. */
static bool name_image(const char *image, char ret[TEMPLATE_NAME_MAX + 1])
{
	const char *slash = strrchr(image, '/');
	char *tag;

	if (strchr(image, '@') || snprintf(ret, TEMPLATE_NAME_MAX + 1, "%s",
	                                   slash ? slash + 1 : image) > TEMPLATE_NAME_MAX)
		return false;
	tag = strchr(ret, ':');
	if (tag)
		*tag = strcmp(tag, ":latest") == 0 ? '\0' : '-';
	return true;
}

const struct template *find_image(const struct fleet *fleet, const char *project_id,
                                  const char *image)
{
	const struct template *t = template_find(fleet, project_id, image);
	char name[TEMPLATE_NAME_MAX + 1];

	return t || !name_image(image, name) ? t : template_find(fleet, project_id, name);
}

static int refuse_image(const char *image, struct err *err)
{
	(void)err_set(err, ERR_NOT_FOUND, 0,
	              "no image '%.255s', and it names no registry that could be asked", image);
	return err_hint(err,
	                "REGISTRY/NAME:TAG is pulled; `docker save IMAGE | cloche template import "
	                "--name NAME -` brings one, of NAME:TAG as NAME-TAG");
}

int find_or_pull(struct http_req *req, const char *image, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct image_wish wish = {.project_id = caller_project(req),
	                                .ref = image,
	                                .field = "image",
	                                .oldest_us = clock_wall_us() - IMAGE_FRESH_US};
	struct template *t;
	int r;

	if (find_image(api->fleet, caller_project(req), image))
		return 0;
	r = await_template(req, image, err);
	if (r != 0)
		return r;
	if (strncmp(image, THEIR_REGISTRY, strlen(THEIR_REGISTRY)) == 0)
		return refuse_image(image, err);
	r = await_image(req, &wish, &t, err);
	return r < 0 && err->code == ERR_INVALID_FIELD ? refuse_image(image, err) : r;
}

bool is_theirs(const char *image)
{
	return strncmp(image, "vercel/sandbox/", strlen("vercel/sandbox/")) == 0;
}

/* Nobody knows what is in one whose maker did not say. */
static bool may_have(const struct template *t, const char *language)
{
	const json_t *languages = t ? json_object_get(template_manifest(t), "languages") : NULL;

	return !languages || json_object_get(languages, language);
}

/* "node:22" and "python3.13", as clients see them. */
static int refuse_runtime(const char *name, struct err *err)
{
	const char *slash = strrchr(name, '/');
	const char *word = slash ? slash + 1 : name;
	const char *recipe = strstr(word, "22")       ? "node22"
	                     : strstr(word, "26")     ? "node26"
	                     : strstr(word, "python") ? "python"
	                                              : "universal";

	return err_set(err, ERR_NOT_FOUND, 0,
	               "this host has no template for '%.64s': `cloche template build --shared %s` "
	               "makes it, `cloche template builds` tells whether it is on its way",
	               word, recipe);
}

/* A number of Node is kept, or refused; all else may be what the daemon gives to those who name
 * nothing, if that can be what is meant. */
int find_base(const struct api *api, const char *project_id, const char *image, const char *runtime,
              const struct template **ret, struct err *err)
{
	const struct fleet *fleet = api->fleet;
	const struct template *fallback = template_default(fleet, project_id);
	const char *name = image ? image : runtime ? runtime : "universal";
	const bool is_python = strstr(name, "python") != NULL;
	const bool is_given = image || runtime;

	*ret = NULL;
	if (is_given || !may_have(fallback, "javascript"))
		*ret = find_image(fleet, project_id, name);
	if (!*ret && image && !is_theirs(image)) {
		*ret = image_peek(api->builds, project_id, image);
		if (!*ret)
			return refuse_image(image, err);
	}
	if (*ret)
		return 0;
	if ((strstr(name, "node") && !strstr(name, "24") &&
	     strcspn(name, "0123456789") < strlen(name)) ||
	    !may_have(fallback, is_python ? "python" : "javascript"))
		return refuse_runtime(name, err);
	*ret = fallback;
	return 0;
}

int find_vercel_sandbox(struct http_req *req, struct vercel_sandbox **ret, struct err *err)
{
	const char *name = http_param(req, "name");

	*ret = vercel_sandbox_find(vercel_of(req), caller_project(req), space_of(req), name);
	if (*ret)
		return 0;
	return err_set(err, ERR_NOT_FOUND, 0, "no sandbox '%.128s'", name);
}

int find_session(struct http_req *req, struct vercel_session **ret, struct err *err)
{
	const char *id = http_param(req, "session_id");

	HASH_FIND_STR(vercel_of(req)->sessions, id, *ret);
	if (*ret && strcmp((*ret)->sandbox->project_id, caller_project(req)) == 0)
		return 0;
	return err_set(err, ERR_NOT_FOUND, 0, "no session '%.64s'", id);
}

static int refuse(struct http_req *req, int status, const char *code, const char *message)
{
	vercel_refuse(req, status, code, message);
	return 1;
}

int find_running(struct http_req *req, struct vercel_session **ret, struct sandbox **ret_native,
                 struct err *err)
{
	struct vercel_session *s;
	int r = find_session(req, ret, err);

	if (r < 0)
		return r;
	s = *ret;
	if (s->is_over || s != vercel_sandbox_session(s->sandbox))
		return refuse(req, 410, "sandbox_stopped", "The sandbox has stopped.");
	if (s->sandbox->phase == VERCEL_SANDBOX_SNAPSHOTTING)
		return refuse(req, 422, "sandbox_snapshotting",
		              "A snapshot of the sandbox is being made.");
	*ret_native = vercel_session_sandbox(s);
	if (!*ret_native || s->sandbox->phase != VERCEL_SANDBOX_RUNNING)
		return refuse(req, 422, "sandbox_stopping", "The sandbox is stopping.");
	return 0;
}

int find_command(struct http_req *req, struct vercel_session **ret_session, struct exec **ret,
                 struct err *err)
{
	const char *id = http_param(req, "command_id");
	struct sandbox *native;
	int r = find_running(req, ret_session, &native, err);

	if (r != 0)
		return r;
	*ret = exec_find(native, id);
	return *ret ? 0 : err_set(err, ERR_NOT_FOUND, 0, "no command '%.64s'", id);
}
