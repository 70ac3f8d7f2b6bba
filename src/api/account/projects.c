// SPDX-License-Identifier: Apache-2.0
/*
 * Projects, for admins of the project "default". One that is removed takes its keys, secrets,
 * webhooks and quotas with it. What it still keeps (files and what runs on them) is its owner's to
 * remove: as long as there is any of that, the project stays. Its events and its usage stay, by its
 * id.
 */
#include "api/api.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
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

int create_project(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = NULL, *id;
	const struct json_field fields[] = {
		{"name", JSON_FIELD_STRING, &name, /* required= */ true, .min = 1,
	         .max = NAME_BYTES_MAX},
	};
	struct event event;
	struct reply reply;
	struct json_writer *w;
	int r = check_is_default(req, err);

	if (r == 0)
		r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = keyring_add_project(api->keyring, name, &id, err);
	if (r < 0)
		return r;
	event_put_text(event_begin(&event, api->events, EVENT_PROJECT_CREATED, id, NULL), "name",
	               name);
	event_end(&event);
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

int delete_project(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id, *name;
	struct event event;
	struct reply reply;
	int r = find_project(req, http_param(req, "project_id"), &id, err);

	if (r == 0 && strcmp(id, caller_project(req)) == 0)
		r = err_set(err, ERR_CONFLICT, 0,
		            "the project 'default' is the operator's own, and stays");
	if (r == 0)
		r = check_is_empty(api, id, err);
	if (r < 0)
		return r;
	name = keyring_project_name(api->keyring, id);
	r = keyring_remove_project(api->keyring, id, err);
	if (r < 0)
		return r;
	hooks_forget(api->hooks, id);
	secrets_forget(api->secrets, id);
	history_forget_project(api->history, id);
	event_put_text(event_begin(&event, api->events, EVENT_PROJECT_REMOVED, id, NULL), "name",
	               name);
	event_end(&event);
	json_put_str(reply_begin(&reply), "id", id);
	return reply_send(&reply, req, 200, err);
}
