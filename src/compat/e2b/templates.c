// SPDX-License-Identifier: Apache-2.0
/* Templates by E2B's names. Where none of ours that would do is built yet, the daemon's default
 * serves, as it does for creates that name none. */
#include "compat/e2b/templates.h"

#include "api/find.h"
#include "api/reply.h"
#include "compat/e2b/shape.h"
#include "sandbox/snapshot.h"
#include "sandbox/template.h"

#include <stdio.h>
#include <string.h>

/* E2B's own, and which of ours have what is expected of them, the best first. */
static const struct {
	const char *name;
	const char *ours[3];
} own[] = {
	{"base", {"universal"}},
	{"code-interpreter", {"python-datasci", "universal"}},
	{"code-interpreter-v1", {"python-datasci", "universal"}},
};

static bool is_own(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (strcmp(own[i].name, name) == 0)
			return true;
	return false;
}

/* NULL: none of them is built, the default has to do. */
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

/* "team/name:tag" is "name". */
static void read_name(const char *text, char ret[TEMPLATE_WORD_SIZE])
{
	const char *slash = strrchr(text, '/');
	const char *from = slash ? slash + 1 : text;

	(void)snprintf(ret, TEMPLATE_WORD_SIZE, "%.*s", (int)strcspn(from, ":"), from);
}

int template_choose(const struct http_req *req, const char *name, struct template_choice *ret,
                    struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *project_id = caller_project(req);
	const struct snapshot *sn;

	*ret = (struct template_choice){0};
	read_name(name, ret->name);
	if (template_find(api->fleet, project_id, name))
		(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	sn = snapshot_find(api->fleet, project_id, ret->name);
	if (sn)
		ret->snapshot = snapshot_id(sn);
	else if (is_own(ret->name))
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

static void put_template(const struct template *t, void *arg)
{
	struct json_writer *w = arg;

	json_open_object(w, NULL);
	json_put_str(w, "templateID", template_name(t));
	json_put_str(w, "buildID", template_name(t));
	json_put_bool(w, "public", template_is_shared(t));
	json_open_array(w, "aliases");
	json_put_str(w, NULL, template_name(t));
	json_close_array(w);
	json_open_array(w, "names");
	json_put_str(w, NULL, template_name(t));
	json_close_array(w);
	json_put_u64(w, "cpuCount", 0);
	json_put_u64(w, "memoryMB", 0);
	json_put_u64(w, "diskSizeMB", 0);
	json_put_str(w, "envdVersion", E2B_ENVD_VERSION);
	json_put_str(w, "buildStatus", "ready");
	json_put_u64(w, "spawnCount", 0);
	json_put_u64(w, "buildCount", 1);
	json_close_object(w);
}

int e2b_list_templates(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct json_writer *w;
	struct reply reply;

	w = reply_begin_bare(&reply);
	json_open_array(w, NULL);
	template_each(api->fleet, caller_project(req), put_template, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

/* Of a snapshot, as its clients know them as templates; or of a template of the project's own. */
int e2b_delete_template(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *name = http_param(req, "id");
	struct template_choice choice;
	struct snapshot *sn;
	struct template *t;
	int r;

	read_name(name, choice.name);
	sn = snapshot_find(api->fleet, caller_project(req), choice.name);
	t = sn ? NULL : template_find(api->fleet, caller_project(req), choice.name);
	if (!sn && (!t || template_is_shared(t)))
		return err_set(err, ERR_NOT_FOUND, 0, "template '%.64s' not found", name);
	r = sn ? snapshot_remove(sn, err) : template_remove(t, err);
	if (r == 0)
		http_reply(req, 204, NULL, NULL, 0);
	return r;
}
