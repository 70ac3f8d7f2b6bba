// SPDX-License-Identifier: Apache-2.0
/* Templates by E2B's names. If none of ours that would fit is built yet, the daemon's default is
 * used, as for creates that name none. */
#include "compat/e2b/control/templates.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/templates/templates.h"
#include "base/units.h"
#include "build/transfer/image_find.h"
#include "compat/e2b/frame/body.h"
#include "compat/e2b/frame/objects.h"
#include "sandbox/snapshot/snapshot.h"
#include "sandbox/storage/template.h"

#include <stdio.h>
#include <string.h>

/* E2B's own templates, and those of ours that fit, the best first. */
static const struct {
	const char *name;
	const char *ours[3];
} own[] = {
	{"base", {"universal"}},
	{"code-interpreter", {"universal", "python-datasci"}},
	{"code-interpreter-v1", {"universal", "python-datasci"}},
};

static bool is_own(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (strcmp(own[i].name, name) == 0)
			return true;
	return false;
}

/* One that somebody has made under E2B's name comes before ours. The shared `base` is none of
 * those: it is cloche's recipe of that name, which has less than E2B's. */
static bool has_been_made(const struct http_req *req, const char *name)
{
	const struct api *api = http_app_arg(req);
	const struct template *t = template_find(api->fleet, caller_project(req), name);

	return t && strcmp(template_name(t), name) == 0 &&
	       !(template_is_shared(t) && strcmp(name, "base") == 0);
}

/* NULL if none of them is built: the default is used. */
static const char *find_ours(const struct http_req *req, const char *name)
{
	const struct api *api = http_app_arg(req);

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		for (const char *const *ours = own[i].ours; strcmp(own[i].name, name) == 0 && *ours;
		     ours++)
			if (template_find(api->fleet, caller_project(req), *ours))
				return *ours;
	return NULL;
}

/* "team/name:tag" is "name.tag"; with the tag "default" it is just the name. */
void template_read_name(const char *text, char ret[TEMPLATE_WORD_SIZE])
{
	const char *slash = strrchr(text, '/');
	const char *from = slash ? slash + 1 : text;
	const char *tag = strchr(from, ':');
	bool has_tag = tag && tag[1] && strcmp(tag + 1, TEMPLATE_TAG_DEFAULT) != 0;

	(void)snprintf(ret, TEMPLATE_WORD_SIZE, "%.*s%s%s", (int)strcspn(from, ":"), from,
	               has_tag ? "." : "", has_tag ? tag + 1 : "");
}

static struct snapshot *snapshot_named(const struct http_req *req, const char *text)
{
	const struct api *api = http_app_arg(req);
	const char *slash = strrchr(text, '/');
	const char *from = slash ? slash + 1 : text;
	char name[TEMPLATE_WORD_SIZE];

	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(from, ":"), from);
	return snapshot_find(api->fleet, caller_project(req), name);
}

int template_choose(const struct http_req *req, const char *name, struct template_choice *ret,
                    struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *project_id = caller_project(req);
	const struct snapshot *sn = snapshot_named(req, name);

	*ret = (struct template_choice){0};
	template_read_name(name, ret->name);
	if (template_find(api->fleet, project_id, name))
		(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	if (sn)
		ret->snapshot = snapshot_id(sn);
	else if (is_own(ret->name) && !has_been_made(req, ret->name))
		ret->template = find_ours(req, ret->name);
	else if (strcmp(ret->name, TEMPLATE_HOST) == 0 ||
	         template_find(api->fleet, project_id, ret->name))
		ret->template = ret->name;
	else
		return err_set(err, ERR_NOT_FOUND, 0, "template '%.64s' not found", name);
	return 0;
}

int e2b_get_alias(struct http_req *req, struct err *err)
{
	const char *alias = http_param(req, "alias");
	struct template_choice choice;
	struct json_writer *w;
	struct reply reply;
	int r = template_choose(req, alias, &choice, err);

	if (r < 0)
		return r;
	w = reply_begin(&reply);
	json_put_str(w, "templateID", choice.name);
	json_put_bool(w, "public", is_own(choice.name));
	return reply_send(&reply, req, 200, err);
}

/* Well-known images, and our templates that fit. Those that are not built yet are built first. */
static const struct {
	const char *image, *ours;
} images[] = {
	{"e2bdev/base", "universal"},
	{"e2bdev/base:latest", "universal"},
	{"e2bdev/code-interpreter", "python-datasci"},
	{"e2bdev/code-interpreter:latest", "python-datasci"},
	{"debian:stable", "base"},
	{"debian:bookworm", "debian:bookworm"},
	{"debian:bookworm-slim", "debian:bookworm"},
	{"debian:trixie", "debian:trixie"},
	{"debian:trixie-slim", "debian:trixie"},
	{"python:3", "python"},
	{"node:lts", "node"},
	{"oven/bun:latest", "bun"},
};

/* One of ours, one that was imported, or else one of a registry. */
static int base_of_image(const struct http_req *req, const char *image,
                         char ret[TEMPLATE_WORD_SIZE], struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct image_wish wish = {
		.project_id = caller_project(req), .ref = image, .field = "fromImage"};

	template_name_of_image(image, ret, TEMPLATE_WORD_SIZE);
	if (template_find(api->fleet, caller_project(req), ret))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(images); i++)
		if (strcmp(images[i].image, image) == 0) {
			(void)snprintf(ret, TEMPLATE_WORD_SIZE, "%s", images[i].ours);
			return 0;
		}
	return image_check(api->builds, &wish, err) < 0 ? -EINVAL : 1;
}

int template_base(const struct http_req *req, const char *template, const char *image,
                  char ret[TEMPLATE_WORD_SIZE], struct err *err)
{
	const struct api *api = http_app_arg(req);
	const struct template *fallback = template_default(api->fleet, caller_project(req));
	const char *ours;

	if (image && *image)
		return base_of_image(req, image, ret, err);
	if (!template || !*template)
		return err_field(err, "fromTemplate", "or fromImage is needed");
	if (snapshot_named(req, template))
		return err_field(err, "fromTemplate", "'%.64s' is a snapshot, and not a template",
		                 template);
	template_read_name(template, ret);
	if (strcmp(ret, TEMPLATE_HOST) == 0)
		return err_field(err, "fromTemplate",
		                 "'" TEMPLATE_HOST
		                 "' is this machine's own programs, and no image");
	if (is_own(ret) && !has_been_made(req, ret)) {
		ours = find_ours(req, ret);
		if (!ours)
			ours = fallback ? template_name(fallback) : "universal";
		(void)snprintf(ret, TEMPLATE_WORD_SIZE, "%s", ours);
		return 0;
	}
	if (template_find(api->fleet, caller_project(req), ret))
		return 0;
	return err_field(err, "fromTemplate", "template '%.64s' not found", template);
}

struct listing {
	struct json_writer *w;
	const struct guest_limits *limits; /* of sandboxes that are made from them */
	bool only_shared;
};

static void put_names(struct json_writer *w, const char *field, const struct template *t)
{
	json_open_array(w, field);
	json_put_str(w, NULL, template_name(t));
	json_close_array(w);
}

static void put_size(struct json_writer *w, const struct guest_limits *limits)
{
	json_put_u64(w, "cpuCount", (limits->cpu_milli + 999) / 1000);
	json_put_u64(w, "memoryMB", limits->memory_bytes / MIB);
	json_put_u64(w, "diskSizeMB", limits->disk_bytes / MIB);
}

static void put_template(const struct template *t, void *arg)
{
	const struct listing *l = arg;
	struct json_writer *w = l->w;

	if (l->only_shared && !template_is_shared(t))
		return;
	json_open_object(w, NULL);
	json_put_str(w, "templateID", template_name(t));
	json_put_str(w, "buildID", template_name(t));
	json_put_bool(w, "public", template_is_shared(t));
	put_names(w, "aliases", t);
	put_names(w, "names", t);
	put_size(w, l->limits);
	e2b_put_time(w, "createdAt", template_created_us(t));
	e2b_put_time(w, "updatedAt", template_created_us(t));
	json_put_null(w, "createdBy");
	json_put_null(w, "lastSpawnedAt");
	json_put_str(w, "envdVersion", E2B_ENVD_VERSION);
	json_put_str(w, "buildStatus", "ready");
	json_put_u64(w, "spawnCount", 0);
	json_put_u64(w, "buildCount", 1);
	json_close_object(w);
}

static int list_templates(struct http_req *req, bool only_shared, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct listing l = {.limits = fleet_default_limits(api->fleet), .only_shared = only_shared};
	struct reply reply;

	l.w = reply_begin_bare(&reply);
	json_open_array(l.w, NULL);
	template_each(api->fleet, caller_project(req), put_template, &l);
	json_close_array(l.w);
	return reply_send(&reply, req, 200, err);
}

int e2b_list_templates(struct http_req *req, struct err *err)
{
	return list_templates(req, /* only_shared= */ false, err);
}

int e2b_list_default_templates(struct http_req *req, struct err *err)
{
	return list_templates(req, /* only_shared= */ true, err);
}

/* A public template is one of ours that all projects share. It is given anew, with the same image,
 * to everybody or to the caller's project. */
static int set_public(struct http_req *req, struct template *t, bool is_public, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct template_spec spec = {.project_id = is_public ? NULL : caller_project(req),
	                             .name = template_name(t),
	                             .image = *template_image(t),
	                             .manifest = template_manifest(t)};
	struct template *made;
	int r = check_shared_template(req, err);

	if (r == 0)
		r = template_publish(api->fleet, &spec, &made, err);
	return r == 0 ? template_remove(t, err) : r;
}

/* Its tags are templates of their own, so it says which of them there is. */
static int refuse_missing(const struct http_req *req, const char *word, struct err *err)
{
	char tag[TEMPLATE_WORD_SIZE];

	if (template_a_tag(req, word, tag))
		return err_set(err, ERR_NOT_FOUND, 0,
		               "template '%.64s' has no tag '" TEMPLATE_TAG_DEFAULT
		               "'; say which tag is meant, such as '%.64s:%.64s'",
		               word, word, tag);
	return err_set(err, ERR_NOT_FOUND, 0, "template '%.64s' not found", word);
}

int e2b_update_template(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	char word[TEMPLATE_WORD_SIZE];
	struct json_writer *w;
	struct template *t;
	struct reply reply;
	bool is_public;
	int r = 0;

	template_read_name(http_param(req, "id"), word);
	t = template_find(api->fleet, caller_project(req), word);
	if (!t)
		return refuse_missing(req, word, err);
	is_public = template_is_shared(t);
	(void)snprintf(word, sizeof(word), "%s", template_name(t));
	r = body_bool(http_json(req), "public", &is_public, err);
	if (r == 0 && is_public != template_is_shared(t))
		r = set_public(req, t, is_public, err);
	if (r < 0)
		return r;
	w = reply_begin(&reply);
	json_open_array(w, "names");
	json_put_str(w, NULL, word);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

/* Deletes a snapshot, which E2B's clients see as a template, or a template of the project. */
int e2b_delete_template(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "id");
	struct snapshot *sn = snapshot_named(req, name);
	char word[TEMPLATE_WORD_SIZE];
	struct template *t;
	int r;

	template_read_name(name, word);
	t = sn ? NULL : template_find(api->fleet, caller_project(req), word);
	if (!sn && (!t || template_is_shared(t)))
		return refuse_missing(req, word, err);
	r = sn ? snapshot_remove(sn, err) : template_remove(t, err);
	if (r == 0)
		http_reply(req, 204, NULL, NULL, 0);
	return r;
}
