// SPDX-License-Identifier: Apache-2.0
/*
 * Drives are the daemon's volumes, with one writer each. Their names are unique in the key's
 * project. Vercel's own project does not divide them; it is only shown as it was when the drive was
 * made.
 */
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "base/units.h"
#include "compat/vercel/handlers.h"
#include "compat/vercel/wire.h"
#include "sandbox/storage/volume.h"

#include <stdio.h>
#include <string.h>

#define LIMIT_DEFAULT 20
#define LIMIT_MAX     50
#define REGION        "iad1" /* as of all else here (describe.c) */

static const char *note_of(const struct volume_facts *f, const char *name, const char *otherwise)
{
	const char *text =
		json_string_value(json_object_get(json_object_get(f->notes, VERCEL_NOTE), name));

	return text ? text : otherwise;
}

/* The session that uses it: its native sandbox is ours, and has the name of Vercel's sandbox as a
 * tag. */
static void put_user(struct json_writer *w, const struct sandbox *s)
{
	struct sandbox_facts facts;
	const char *name;

	if (!s)
		return;
	sandbox_facts(s, &facts);
	name = json_string_value(json_object_get(facts.tags, "vercel/name"));
	json_put_str(w, "currentSessionId", sandbox_id(s));
	json_put_str(w, "currentSandboxName", name ? name : facts.name);
}

static void put_origin(struct json_writer *w, const char *field, const char *id)
{
	if (id)
		json_put_str(w, field, id);
}

static void put_drive(struct json_writer *w, const char *field, const struct volume *v)
{
	struct volume_facts f;

	volume_facts(v, &f);
	json_open_object(w, field);
	json_put_str(w, "id", f.id);
	json_put_str(w, "name", f.name);
	json_put_str(w, "projectId", note_of(&f, "space", ""));
	json_put_str(w, "region", note_of(&f, "region", REGION));
	json_put_u64(w, "maxSizeBytes", f.bytes);
	json_put_u64(w, "createdAt", f.created_us / 1000);
	json_put_u64(w, "updatedAt", f.created_us / 1000);
	put_origin(w, "parentDriveId", note_of(&f, "parent", NULL));
	put_origin(w, "rootDriveId", note_of(&f, "root", NULL));
	put_user(w, f.user);
	json_close_object(w);
}

static void put_item(struct json_writer *w, const void *object)
{
	put_drive(w, NULL, object);
}

struct pick {
	const struct page_query *query;
	struct page_items *items;
};

static void pick_one(const struct volume *v, void *arg)
{
	const struct pick *p = arg;
	const char *prefix = p->query->name_prefix;
	struct volume_facts f;

	volume_facts(v, &f);
	if (!prefix || strncmp(f.name, prefix, strlen(prefix)) == 0)
		page_add(p->items, f.id, v, f.created_us / 1000,
		         page_sorts_by(p->query, "name") ? f.name : NULL);
}

static void collect(struct http_req *req, const struct page_query *q, struct page_items *ret)
{
	const struct api *api = http_app_arg(req);
	struct pick p = {q, ret};

	volume_list(api->fleet, caller_project(req), pick_one, &p);
}

int vercel_list_drives(struct http_req *req, struct err *err)
{
	static const struct page_kind kind = {.array = "drives",
	                                      .id_field = "id",
	                                      .sorts = {"createdAt", "name"},
	                                      .limit_default = LIMIT_DEFAULT,
	                                      .limit_max = LIMIT_MAX,
	                                      .collect = collect,
	                                      .put = put_item};

	return page_list(req, &kind, err);
}

static void on_made(struct volume *v, const struct err *err, void *arg)
{
	struct http_req *req = late_reply_take(arg, err);
	struct reply reply;

	if (!req)
		return;
	put_drive(reply_begin(&reply), "drive", v);
	reply_send_late(&reply, req, 201);
}

static int make_drive(struct http_req *req, const char *name, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *space = "", *region = REGION;
	auto_json json_t *notes = NULL;
	uint64_t bytes = 0;
	const struct json_field fields[] = {
		{"projectId", JSON_FIELD_STRING, &space, .max = 128},
		{"region", JSON_FIELD_STRING, &region, .max = 64},
		{"maxSizeBytes", JSON_FIELD_U64, &bytes, .min = MIB, .max = UINT64_C(1) << 40},
	};
	struct volume_wish wish = {
		.name = name, .key_id = key_id(http_user(req)), .has_one_writer = true};
	struct late_reply *late;
	int r = body_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	notes = json_pack("{s:{s:s, s:s}}", VERCEL_NOTE, "space", space, "region", region);
	wish.notes = notes;
	wish.bytes = bytes;
	late = late_reply_new(req, sizeof(*late));
	r = volume_create(api->fleet, caller_project(req), &wish, on_made, late, err);
	return r < 0 ? late_reply_drop(late, r) : r;
}

int vercel_get_or_create_drive(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "drive");
	const struct volume *v = volume_find(api->fleet, caller_project(req), name);
	struct reply reply;

	if (!v)
		return make_drive(req, name, err);
	put_drive(reply_begin(&reply), "drive", v);
	return reply_send(&reply, req, 200, err);
}

static struct volume *find_drive(const struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "drive");
	struct volume *v = volume_find(api->fleet, caller_project(req), name);

	if (!v)
		(void)err_set(err, ERR_NOT_FOUND, 0, "no drive '%.64s'", name);
	return v;
}

/* The fork is told where it comes from; region and project are those of its source. */
static json_t *notes_of_fork(const struct volume_facts *source)
{
	return json_pack("{s:{s:s, s:s, s:s, s:s}}", VERCEL_NOTE, "space",
	                 note_of(source, "space", ""), "region", note_of(source, "region", REGION),
	                 "parent", source->id, "root", note_of(source, "root", source->id));
}

int vercel_fork_drive(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct volume_wish wish = {.key_id = key_id(http_user(req)), .has_one_writer = true};
	const struct json_field fields[] = {
		{"name", JSON_FIELD_STRING, &wish.name, true, .min = 1, .max = VOLUME_NAME_MAX},
	};
	auto_json json_t *notes = NULL;
	struct volume_facts facts;
	struct late_reply *late;
	int r = body_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);

	if (r == 0 && !wish.name)
		r = err_field(err, "name", "is missing");
	if (r == 0)
		r = lead_elsewhere(req, err);
	if (r != 0)
		return r;
	wish.source = find_drive(req, err);
	if (!wish.source)
		return -ENOENT;
	volume_facts(wish.source, &facts);
	notes = notes_of_fork(&facts);
	wish.notes = notes;
	late = late_reply_new(req, sizeof(*late));
	r = volume_create(api->fleet, caller_project(req), &wish, on_made, late, err);
	return r < 0 ? late_reply_drop(late, r) : r;
}

int vercel_get_drive(struct http_req *req, struct err *err)
{
	const struct volume *v = find_drive(req, err);
	struct reply reply;

	if (!v)
		return -ENOENT;
	put_drive(reply_begin(&reply), "drive", v);
	return reply_send(&reply, req, 200, err);
}

int vercel_delete_drive(struct http_req *req, struct err *err)
{
	struct volume *v = find_drive(req, err);
	struct reply reply;
	int r;

	if (!v)
		return -ENOENT;
	put_drive(reply_begin(&reply), "drive", v);
	r = volume_remove(v, err);
	if (r == 0)
		return reply_send(&reply, req, 200, err);
	buf_done(&reply.body);
	if (err->code != ERR_CONFLICT)
		return r;
	vercel_refuse(req, 409, "conflict", err->message);
	return 0;
}
