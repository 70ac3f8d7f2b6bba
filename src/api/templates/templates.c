// SPDX-License-Identifier: Apache-2.0
/* Templates. To make one takes as long as its files are many: that is answered later. */
#include "sandbox/storage/template.h"

#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "api/templates/templates.h"
#include "build/transfer/vm_template.h"
#include "sandbox/snapshot/snapshot.h"
#include "sandbox/storage/image.h"
#include "sandbox/storage/shared_template.h"

#include <string.h>
#include <time.h>

#define USER_MAX 64
#define CWD_MAX  1024

static void put_template(const struct template *t, void *arg)
{
	template_to_json(t, arg, NULL);
}

struct listing {
	const struct fleet *fleet;
	struct json_writer *w;
};

static void put_elsewhere(const struct node_image *i, void *arg)
{
	const struct listing *list = arg;

	shared_template_elsewhere_to_json(list->fleet, i, list->w, NULL);
}

int list_templates(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct listing list = {.fleet = api->fleet};
	struct json_writer *w;
	struct reply reply;

	w = reply_begin(&reply);
	list.w = w;
	json_open_array(w, "templates");
	template_host_to_json(w, NULL);
	template_each(api->fleet, caller_project(req), put_template, w);
	shared_template_each_elsewhere(api->fleet, caller_project(req), put_elsewhere, &list);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

int find_template(const struct http_req *req, struct template **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "template");

	*ret = template_find(api->fleet, caller_project(req), name);
	return *ret ? 0 : err_set(err, ERR_NOT_FOUND, 0, "no template '%.64s'", name);
}

int get_template(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	bool is_host = strcmp(http_param(req, "template"), TEMPLATE_HOST) == 0;
	const struct node_image *elsewhere = NULL;
	struct template *t = NULL;
	struct reply reply;
	int r = 0;

	if (!is_host)
		r = find_template(req, &t, err);
	if (r < 0)
		elsewhere = shared_template_elsewhere(api->fleet, caller_project(req),
		                                      http_param(req, "template"));
	if (r < 0 && !elsewhere)
		return r;
	if (elsewhere)
		shared_template_elsewhere_to_json(api->fleet, elsewhere, reply_begin_bare(&reply),
		                                  NULL);
	else if (t)
		template_to_json(t, reply_begin_bare(&reply), NULL);
	else
		template_host_to_json(reply_begin_bare(&reply), NULL);
	return reply_send(&reply, req, 200, err);
}

int check_shared_template(const struct http_req *req, struct err *err)
{
	if (key_scope(http_user(req)) != SCOPE_ADMIN)
		return err_set(err, ERR_FORBIDDEN, 0,
		               "a shared template needs a key with scope 'admin'");
	return check_is_default(req, err);
}

/* One that all nodes have goes from the database first: a template that this node alone has
 * forgotten would come back. */
struct removal {
	struct late_reply late;
	struct fleet *fleet;
	char id[ID_SIZE];
};

static int remove_here(struct fleet *fleet, const char *id, struct err *err)
{
	struct template *t = template_find_id(fleet, id);

	return t ? template_remove(t, err) : 0;
}

static void on_removed_everywhere(const struct err *failed, void *arg)
{
	struct removal *a = arg;
	struct fleet *fleet = a->fleet;
	char id[ID_SIZE];
	struct http_req *req;
	struct reply reply;
	struct err err;
	int r;

	memcpy(id, a->id, sizeof(id));
	req = late_reply_take(&a->late, NULL);
	if (failed)
		err = *failed;
	r = failed ? -EIO : remove_here(fleet, id, &err);
	if (req && r < 0) {
		http_reply_err(req, &err);
	} else if (req) {
		json_put_str(reply_begin(&reply), "id", id);
		reply_send_late(&reply, req, 200);
	}
}

int delete_template(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *word = http_param(req, "template"), *project_id, *name;
	struct template *t = template_find(api->fleet, caller_project(req), word);
	const struct node_image *i =
		t ? NULL : shared_template_elsewhere(api->fleet, caller_project(req), word);
	struct removal *a;
	struct reply reply;
	char id[ID_SIZE];
	int r = 0;

	if (strcmp(word, TEMPLATE_HOST) == 0)
		r = err_set(err, ERR_CONFLICT, 0, "'" TEMPLATE_HOST "' is always there");
	if (r == 0 && !t && !i)
		r = err_set(err, ERR_NOT_FOUND, 0, "no template '%.64s'", word);
	if (r < 0)
		return r;
	project_id = t ? template_project_id(t) : i->project_id;
	name = t ? template_name(t) : i->name;
	if (!project_id[0])
		r = check_shared_template(req, err);
	if (r == 0 && t)
		r = template_check_unused(t, err);
	if (r < 0)
		return r;
	(void)snprintf(id, sizeof(id), "%s", t ? template_id(t) : i->template_id);
	if (shared_template_is_known(api->fleet, project_id, name, id)) {
		a = late_reply_new(req, sizeof(*a));
		a->fleet = api->fleet;
		memcpy(a->id, id, sizeof(a->id));
		shared_template_remove(api->fleet, project_id, name, id, on_removed_everywhere, a);
		return 0;
	}
	r = remove_here(api->fleet, id, err);
	if (r < 0)
		return r;
	json_put_str(reply_begin(&reply), "id", id);
	return reply_send(&reply, req, 200, err);
}

/* A template in the making; its client may leave meanwhile. */
struct making {
	struct http_req *req; /* NULL: it has */
	struct fleet *fleet;
	char project_id[ID_SIZE];
	bool is_shared, is_replacing;
	char *name;
	json_t *manifest;
};

static void making_free(struct making *m)
{
	if (m->req)
		http_on_done(m->req, NULL, NULL);
	json_decref(m->manifest);
	free(m->name);
	free(m);
}

static void on_client_done(void *arg)
{
	struct making *m = arg;

	m->req = NULL;
}

static struct template_spec spec_of(const struct making *m)
{
	return (struct template_spec){.project_id = m->is_shared ? NULL : m->project_id,
	                              .name = m->name,
	                              .manifest = m->manifest,
	                              .is_replacing = m->is_replacing};
}

static void on_made(struct template *t, const struct err *err, void *arg)
{
	struct making *m = arg;
	struct reply reply;

	if (m->req && !t) {
		http_reply_err(m->req, err);
	} else if (m->req) {
		template_to_json(t, reply_begin_bare(&reply), NULL);
		reply_send_late(&reply, m->req, 201);
	}
	making_free(m);
}

static void on_sealed(const struct digest *image, uint64_t bytes, const struct err *sealed,
                      void *arg)
{
	struct making *m = arg;
	struct template_spec spec = spec_of(m);
	struct template *t = NULL;
	struct err err = {0};

	(void)bytes;
	if (image) {
		spec.image = *image;
		if (template_publish(m->fleet, &spec, &t, &err) < 0)
			image_release(m->fleet, image);
	} else {
		err = *sealed;
	}
	on_made(t, t ? NULL : &err, m);
}

struct template_body {
	const char *from, *name, *user, *cwd;
	json_t *env;
	bool is_shared, is_replacing;
	struct image_spec image;
};

static int read_body(const json_t *body, struct template_body *ret, struct err *err)
{
	/* clang-format off */
	const struct json_field fields[] = {
		{"from",    JSON_FIELD_STRING, &ret->from, /* required= */ true, .min = 1, .max = 64},
		{"name",    JSON_FIELD_STRING, &ret->name, /* required= */ true, .min = 1, .max = TEMPLATE_NAME_MAX},
		{"shared",  JSON_FIELD_BOOL,   &ret->is_shared},
		{"replace", JSON_FIELD_BOOL,   &ret->is_replacing},
		{"tree",    JSON_FIELD_BOOL,   &ret->image.is_tree},
		{"small",   JSON_FIELD_BOOL,   &ret->image.is_small},
		{"env",     JSON_FIELD_OBJECT, &ret->env},
		{"user",    JSON_FIELD_STRING, &ret->user, .min = 1, .max = USER_MAX},
		{"cwd",     JSON_FIELD_STRING, &ret->cwd,  .min = 1, .max = CWD_MAX},
	};
	/* clang-format on */
	int r;

	*ret = (struct template_body){0};
	if (!body)
		return err_field(err, "from", "is missing");
	r = json_read(body, "", fields, ARRAY_SIZE(fields), err);
	if (r == 0 && ret->env)
		r = body_check_env(ret->env, "env", err);
	ret->image.epoch_s = (uint64_t)time(NULL);
	return r;
}

static json_t *make_manifest(const struct template_body *b)
{
	json_t *manifest = json_object();

	if (b->env)
		(void)json_object_set_new(manifest, "env", json_deep_copy(b->env));
	if (b->user)
		(void)json_object_set_new(manifest, "user", json_string(b->user));
	if (b->cwd)
		(void)json_object_set_new(manifest, "cwd", json_string(b->cwd));
	(void)json_object_set_new(manifest, "sealed",
	                          image_sealed_json(b->image.epoch_s, b->image.is_small));
	return manifest;
}

static struct making *making_new(struct http_req *req, const struct template_body *b)
{
	const struct api *api = http_app_arg(req);
	struct making *m = xnew0(struct making);

	*m = (struct making){.req = req,
	                     .fleet = api->fleet,
	                     .is_shared = b->is_shared,
	                     .is_replacing = b->is_replacing,
	                     .name = xstrdup(b->name),
	                     .manifest = make_manifest(b)};
	(void)snprintf(m->project_id, sizeof(m->project_id), "%s", caller_project(req));
	http_on_done(req, on_client_done, m);
	return m;
}

/* Of one of the two. */
static int begin_making(struct making *m, struct builds *builds, const struct image_spec *image,
                        struct sandbox *s, struct snapshot *sn, struct err *err)
{
	const struct vm_template_spec spec = {.project_id = m->project_id,
	                                      .from = s ? sandbox_id(s) : snapshot_id(sn),
	                                      .name = m->name,
	                                      .is_shared = m->is_shared,
	                                      .is_replacing = m->is_replacing,
	                                      .is_tree = image->is_tree,
	                                      .manifest = m->manifest};
	struct image_seal *seal;

	if (engine_traits(s ? sandbox_engine(s) : snapshot_engine(sn))->has_own_disk)
		return vm_template_start(builds, &spec, on_made, m, err);
	return s ? image_seal(s, image, on_sealed, m, &seal, err)
	         : snapshot_seal(sn, image, on_sealed, m, &seal, err);
}

int create_template(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct template_spec spec;
	struct template_body body;
	struct snapshot *sn;
	struct sandbox *s;
	struct making *m;
	int r = read_body(http_json(req), &body, err);

	if (r == 0 && body.is_shared)
		r = check_shared_template(req, err);
	if (r < 0)
		return r;
	s = sandbox_find(api->fleet, caller_project(req), body.from);
	sn = s ? NULL : snapshot_find(api->fleet, caller_project(req), body.from);
	if (!s && !sn)
		return err_set(err, ERR_NOT_FOUND, 0, "from: no sandbox or snapshot '%.64s'",
		               body.from);
	m = making_new(req, &body);
	spec = spec_of(m);
	r = template_check_free(api->fleet, &spec, err);
	if (r == 0)
		r = begin_making(m, api->builds, &body.image, s, sn, err);
	if (r < 0)
		making_free(m);
	return r;
}
