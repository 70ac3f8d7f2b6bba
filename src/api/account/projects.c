// SPDX-License-Identifier: Apache-2.0
/*
 * Projects, for admins of the project "default". One that is removed takes its keys, secrets,
 * webhooks and quotas with it. What it still keeps (files and what runs on them) is its owner's to
 * remove: as long as there is any of that, the project stays. Its events and its usage stay, by its
 * id.
 */
#include "api/api.h"
#include "api/frame/access.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "base/clock.h"
#include "base/log.h"
#include "hook/hook.h"
#include "sandbox/pool/pool_reservation.h"
#include "sandbox/snapshot/snapshot.h"
#include "sandbox/storage/template.h"
#include "sandbox/storage/volume.h"
#include "secret/secret.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES_MAX 64
#define COUNT_MAX      1000 /* what is more is many */

static void put_project(const char *id, const char *name, uint64_t created_us, void *arg)
{
	struct json_writer *w = arg;

	json_open_object(w, NULL);
	json_put_str(w, "id", id);
	json_put_str(w, "name", name);
	json_put_u64(w, "created_us", created_us);
	json_close_object(w);
}

int list_projects(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;
	struct json_writer *w;
	int r = check_is_default(req, err);

	if (r < 0)
		return r;
	w = reply_begin(&reply);
	json_open_array(w, "projects");
	keyring_each_project(api->keyring, put_project, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

static void tell_project(const struct api *api, enum event_type type, const char *id,
                         const char *name)
{
	struct event event;

	event_put_text(event_begin(&event, api->events, type, id, NULL), "name", name);
	event_end(&event);
}

/* In a cluster: one that the others are to hear of first. */
struct project_wait {
	struct late_reply late;
	const struct api *api;
	char id[ID_SIZE], name[NAME_BYTES_MAX + 1];
	bool is_removed;
};

static int tell_made(struct http_req *req, const char *id, const char *name, struct err *err);
static int remove_now(const struct api *api, const char *id, struct err *err);

static int end_wait(const struct project_wait *w, struct http_req *req, struct err *err)
{
	struct reply reply;
	int r;

	if (!w->is_removed && req)
		return tell_made(req, w->id, w->name, err);
	if (!w->is_removed) {
		tell_project(w->api, EVENT_PROJECT_CREATED, w->id, w->name);
		return 0;
	}
	/* Else it went with the change that the cluster has told of. */
	r = keyring_project_name(w->api->keyring, w->id) ? remove_now(w->api, w->id, err) : 0;
	if (r < 0 || !req)
		return r;
	json_put_str(reply_begin(&reply), "id", w->id);
	return reply_send(&reply, req, 200, err);
}

static void on_shared(const struct err *failure, void *arg)
{
	const struct project_wait w = *(struct project_wait *)arg;
	struct http_req *req = late_reply_take(arg, failure);
	struct err err = {0};

	if (failure)
		return;
	if (req)
		access_enter_again(req);
	if (end_wait(&w, req, &err) < 0 && req)
		http_reply_err(req, &err);
	if (req)
		access_leave(req);
}

static int share_project(struct http_req *req, const char *id, const char *name, bool is_removed,
                         struct err *err)
{
	const struct api *api = http_app_arg(req);
	int r = node_check(api->node, err);
	struct project_wait *w;

	if (r < 0)
		return r;
	w = late_reply_new(req, sizeof(*w));
	w->api = api;
	w->is_removed = is_removed;
	(void)snprintf(w->name, sizeof(w->name), "%s", name);
	if (is_removed) {
		(void)snprintf(w->id, sizeof(w->id), "%s", id);
		node_remove_project(api->node, w->id, on_shared, w);
	} else {
		id_make(w->id, "prj");
		node_put_project(api->node, w->id, w->name, clock_wall_us(), on_shared, w);
	}
	return 0;
}

int create_project(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = NULL, *id;
	const struct json_field fields[] = {
		{"name", JSON_FIELD_STRING, &name, /* required= */ true, .min = 1,
	         .max = NAME_BYTES_MAX},
	};
	int r = check_is_default(req, err);

	if (r == 0)
		r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	if (r == 0 && node_is_in(api->node)) {
		r = keyring_check_project(api->keyring, name, err);
		return r < 0 ? r : share_project(req, NULL, name, false, err);
	}
	if (r == 0)
		r = keyring_add_project(api->keyring, name, &id, err);
	return r < 0 ? r : tell_made(req, id, name, err);
}

static int tell_made(struct http_req *req, const char *id, const char *name, struct err *err)
{
	struct reply reply;
	struct json_writer *w;

	tell_project(http_app_arg(req), EVENT_PROJECT_CREATED, id, name);
	w = reply_begin(&reply);
	json_put_str(w, "id", id);
	json_put_str(w, "name", name);
	return reply_send(&reply, req, 201, err);
}

struct project_contents { /* what keeps a project */
	const char *project_id;
	size_t n_volumes, n_templates, n_builds, n_snapshots;
};

static void count_volume(const struct volume *v, void *arg)
{
	struct project_contents *o = arg;

	(void)v;
	o->n_volumes++;
}

static void count_snapshot(const struct snapshot *sn, void *arg)
{
	struct project_contents *o = arg;

	(void)sn;
	o->n_snapshots++;
}

/* Sets of packages are no template of the owner's: they leave when room is wanted. */
static void count_template(const struct template *t, void *arg)
{
	struct project_contents *o = arg;

	o->n_templates += !template_is_set(t) && strcmp(template_project_id(t), o->project_id) == 0;
}

static void count_build(struct build *b, void *arg)
{
	struct project_contents *o = arg;

	o->n_builds += !build_is_over(b);
}

static void see_sandbox(struct sandbox *s, void *arg)
{
	(void)s;
	(void)arg;
}

static int check_is_empty(const struct api *api, const char *id, struct err *err)
{
	const struct sandbox_filter sandboxes = {.project_id = id, .limit = COUNT_MAX};
	const struct snapshot_filter snapshots = {.project_id = id, .limit = COUNT_MAX};
	struct project_contents o = {.project_id = id};
	bool has_more;
	const size_t n_sandboxes = fleet_list(api->fleet, &sandboxes, see_sandbox, NULL, &has_more);
	char text[200] = "";
	size_t len = 0;

	volume_list(api->fleet, id, count_volume, &o);
	snapshot_list(api->fleet, &snapshots, count_snapshot, &o, &has_more);
	template_each(api->fleet, id, count_template, &o);
	builds_each(api->builds, id, count_build, &o);

	const struct {
		const char *one, *many;
		size_t n;
	} rows[] = {
		{"sandbox", "sandboxes", n_sandboxes},
		{"volume", "volumes", o.n_volumes},
		{"snapshot", "snapshots", o.n_snapshots},
		{"template", "templates", o.n_templates},
		{"build that goes on", "builds that go on", o.n_builds},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].n > 0)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%zu %s",
			                        len ? ", " : "", rows[i].n,
			                        rows[i].n == 1 ? rows[i].one : rows[i].many);
	if (len == 0)
		return 0;
	(void)err_set(err, ERR_CONFLICT, 0, "the project '%s' still has %s",
	              keyring_project_name(api->keyring, id), text);
	return err_hint(err, "remove them first, with a key of that project: 'cloche rm --all', "
	                     "then 'cloche volume', 'snapshot' and 'template' with 'rm'");
}

static int remove_now(const struct api *api, const char *id, struct err *err)
{
	const char *name = keyring_project_name(api->keyring, id);
	int r = keyring_remove_project(api->keyring, id, err);

	if (r < 0)
		return r;
	hooks_forget(api->hooks, id);
	secrets_forget(api->secrets, id);
	history_forget_project(api->history, id);
	reservations_remove_all(api->fleet, id);
	tell_project(api, EVENT_PROJECT_REMOVED, id, name);
	return 0;
}

static void see_secret(const struct secret *secret, void *arg)
{
	(void)secret;
	*(bool *)arg = true;
}

static void see_hook(const struct hook *hook, void *arg)
{
	(void)hook;
	*(bool *)arg = true;
}

void projects_remove_unused(const char *id, void *arg)
{
	const struct api *api = arg;
	bool has_some = false;
	struct err err;

	secrets_each(api->secrets, id, see_secret, &has_some);
	hooks_each(api->hooks, id, see_hook, &has_some);
	if (!has_some && check_is_empty(api, id, &err) == 0 && remove_now(api, id, &err) < 0)
		log_warn("project.not_removed", "project=%s error='%s'", id, err.message);
}

int delete_project(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id;
	struct reply reply;
	int r = find_project(req, http_param(req, "project_id"), &id, err);

	if (r == 0 && strcmp(id, caller_project(req)) == 0)
		r = err_set(err, ERR_CONFLICT, 0,
		            "the project 'default' is the operator's own, and stays");
	if (r == 0)
		r = check_is_empty(api, id, err);
	if (r == 0 && node_is_in(api->node))
		return share_project(req, id, keyring_project_name(api->keyring, id), true, err);
	if (r == 0)
		r = remove_now(api, id, err);
	if (r < 0)
		return r;
	json_put_str(reply_begin(&reply), "id", id);
	return reply_send(&reply, req, 200, err);
}
