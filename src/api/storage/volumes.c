// SPDX-License-Identifier: Apache-2.0
/* Volumes. How full they are is the broker's to say, so most of it is answered later. */
#include "sandbox/storage/volume.h"

#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/nodes/node_rows.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>

#define SIZE_MAX_MIB (UINT64_C(1) << 20)

static int find_volume(const struct http_req *req, struct volume **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "volume");

	*ret = volume_find(api->fleet, caller_project(req), name);
	if (*ret)
		return 0;
	(void)err_set(err, ERR_NOT_FOUND, 0, "no volume '%.64s'", name);
	return err_hint(err, "'cloche volume ls' lists those of your project");
}

static void on_made(struct volume *v, const struct err *err, void *arg)
{
	struct http_req *req = late_reply_take(arg, err);
	struct reply reply;

	if (!req)
		return;
	volume_to_json(v, reply_begin_bare(&reply), NULL);
	reply_send_late(&reply, req, 201);
}

/* A copy is as its source is, where the client does not say otherwise. */
static int take_source(const struct http_req *req, const char *name, bool says_writers,
                       struct volume_wish *wish, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct volume_facts facts;

	wish->source = volume_find(api->fleet, caller_project(req), name);
	if (!wish->source) {
		(void)err_field(err, "source", "no volume '%.64s'", name);
		return err_hint(err, "'cloche volume ls' lists those of your project");
	}
	volume_facts(wish->source, &facts);
	if (!says_writers)
		wish->has_one_writer = facts.has_one_writer;
	return 0;
}

int create_volume(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct volume_wish wish = {.key_id = key_id(http_user(req))};
	const char *source = NULL;
	bool says_writers = false;
	uint64_t size_mib = 0;
	/* clang-format off */
	const struct json_field fields[] = {
		{"name",       JSON_FIELD_STRING, &wish.name, true, .min = 1, .max = VOLUME_NAME_MAX},
		{"size_mib",   JSON_FIELD_U64,    &size_mib, .min = VOLUME_MIB_MIN, .max = SIZE_MAX_MIB},
		{"one_writer", JSON_FIELD_BOOL,   &wish.has_one_writer, .ret_given = &says_writers},
		{"source",     JSON_FIELD_STRING, &source, .min = 1, .max = VOLUME_NAME_MAX},
	};
	/* clang-format on */
	const json_t *body = http_json(req);
	struct late_reply *late;
	int r = body ? json_read(body, "", fields, ARRAY_SIZE(fields), err)
	             : err_field(err, "name", "is missing");

	if (r == 0)
		r = lead_elsewhere(req, err);
	if (r > 0)
		return r;
	if (r == 0 && source)
		r = take_source(req, source, says_writers, &wish, err);
	if (r < 0)
		return r;
	wish.bytes = size_mib * MIB;
	late = late_reply_new(req, sizeof(*late));
	r = volume_create(api->fleet, caller_project(req), &wish, on_made, late, err);
	return r < 0 ? late_reply_drop(late, r) : 0;
}

struct listing {
	struct json_writer *w;
	const char *node;
};

static void put_volume(const struct volume *v, void *arg)
{
	const struct listing *l = arg;

	json_open_object(l->w, NULL);
	volume_put_fields(v, l->w);
	if (l->node[0])
		json_put_str(l->w, "node", l->node);
	json_close_object(l->w);
}

static void put_own(struct http_req *req, struct json_writer *w)
{
	const struct api *api = http_app_arg(req);
	struct listing l = {w, node_of_rows(req)};

	volume_list(api->fleet, caller_project(req), put_volume, &l);
}

/* In a cluster those of the other nodes, too. */
static void reply_all(struct http_req *req)
{
	static const struct node_rows_kind kind = {
		.array = "volumes", .put_own = put_own, .tells_node = true};
	struct json_writer *w;
	struct reply reply;
	struct err err;
	int r = node_rows_begin(req, &kind, &err);

	if (r < 0)
		http_reply_err(req, &err);
	if (r != 0)
		return;
	w = reply_begin(&reply);
	json_open_array(w, "volumes");
	put_own(req, w);
	json_close_array(w);
	reply_send_late(&reply, req, 200);
}

static void reply_one(struct http_req *req, const char *id)
{
	const struct api *api = http_app_arg(req);
	const struct volume *v = volume_find(api->fleet, caller_project(req), id);
	struct reply reply;
	struct err err;

	if (!v) {
		(void)err_set(&err, ERR_NOT_FOUND, 0, "volume %s was removed", id);
		http_reply_err(req, &err);
		return;
	}
	volume_to_json(v, reply_begin_bare(&reply), NULL);
	reply_send_late(&reply, req, 200);
}

/* A reply that waits for how full the volumes are. */
struct measuring {
	struct late_reply late;
	char id[ID_SIZE]; /* of the one that is asked for; "": all */
};

static void on_measured(const struct err *err, void *arg)
{
	const struct measuring m = *(struct measuring *)arg;
	struct http_req *req = late_reply_take(arg, err);

	if (!req)
		return;
	if (m.id[0])
		reply_one(req, m.id);
	else
		reply_all(req);
}

static int reply_measured(struct http_req *req, const char *id, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct measuring *m = late_reply_new(req, sizeof(*m));
	int r;

	(void)snprintf(m->id, sizeof(m->id), "%s", id);
	r = volume_measure_all(api->fleet, on_measured, m, err);
	return r < 0 ? late_reply_drop(m, r) : 0;
}

int list_volumes(struct http_req *req, struct err *err)
{
	return reply_measured(req, "", err);
}

int get_volume(struct http_req *req, struct err *err)
{
	struct volume_facts facts;
	struct volume *v;
	int r = find_volume(req, &v, err);

	if (r < 0)
		return r;
	volume_facts(v, &facts);
	return reply_measured(req, facts.id, err);
}

int delete_volume(struct http_req *req, struct err *err)
{
	struct volume_facts facts;
	struct volume *v;
	struct reply reply;
	char id[ID_SIZE];
	int r = find_volume(req, &v, err);

	if (r < 0)
		return r;
	volume_facts(v, &facts);
	(void)snprintf(id, sizeof(id), "%s", facts.id);
	r = volume_remove(v, err);
	if (r < 0)
		return r;
	json_put_str(reply_begin(&reply), "id", id);
	return reply_send(&reply, req, 200, err);
}
