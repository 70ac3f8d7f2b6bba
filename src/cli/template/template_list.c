// SPDX-License-Identifier: Apache-2.0
#include "cli/template/template_list.h"

#include "cli/session/build_follow.h"
#include "cli/session/spec.h"
#include "cli/template/cmd_template.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

/* `host` is no image: it has no id, and most columns say nothing of it. */
static bool is_host(const json_t *template)
{
	return json_is_null(json_object_get(template, "id"));
}

static char *cell_size(const json_t *template, const char *field)
{
	return is_host(template) ? NULL : cell_bytes(template, field);
}

static char *cell_owner(const json_t *template, const char *field)
{
	const bool is_shared = json_is_true(json_object_get(template, field));
	const char *owner = is_host(template) ? "this machine" : is_shared ? "shared" : "project";
	const char *state =
		json_string_value(json_object_get(json_object_get(template, "cluster"), "state"));

	/* What is not usual in a cluster is said. */
	return state && strcmp(state, "everywhere") != 0 ? xasprintf("%s, %s", owner, state)
	                                                 : xstrdup(owner);
}

static char *cell_copies(const json_t *template, const char *field)
{
	return is_host(template) ? NULL : cell_number(template, field);
}

static char *cell_digest(const json_t *template, const char *field)
{
	return xasprintf("%.19s", command_text(template, field));
}

static const struct column columns[] = {
	{"NAME", "name"},
	{"SIZE", "bytes", cell_size},
	{"BASES", "shared_bytes", cell_size},
	{"OWNER", "shared", cell_owner},
	{"SANDBOXES", "sandboxes", cell_number},
	{"WARM", "warm_copies", cell_copies},
	{"AGE", "created_us", cell_age},
	{"DIGEST", "digest", cell_digest},
};
const struct resource template_resource = {
	.plural = "templates", .columns = columns, .n_columns = ARRAY_SIZE(columns)};

/* What is on its way stands below, where whoever looks for it sees it; a script reads stdout. */
static int tell_builds(const struct command *c, struct err *err)
{
	auto_free char *path = remote_path("builds");
	auto_json json_t *reply = NULL;
	const json_t *one;
	bool is_any = false;
	size_t i;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	json_array_foreach(json_object_get(reply, "builds"), i, one)
	{
		auto_free char *name = NULL, *progress = NULL;

		if (!build_is_going(one))
			continue;
		name = text_escaped(command_text(one, "name"));
		progress = build_progress(one);
		(void)fprintf(stderr, "%s is being built: %s\n", name, progress);
		is_any = true;
	}
	if (is_any)
		(void)fprintf(stderr, "More of it: cloche template builds\n");
	return r;
}

int template_ls(struct command *c, struct err *err)
{
	int r = resource_ls(c, err);

	return r < 0 || c->common.json ? r : tell_builds(c, err);
}

static int make_body(const struct command *c, const struct template_from_opts *o, json_t **ret,
                     struct err *err)
{
	const struct {
		const char *name;
		bool is_on;
	} flags[] = {{"shared", o->is_shared},
	             {"replace", o->is_replacing},
	             {"small", o->is_small},
	             {"tree", o->is_tree}};
	auto_json json_t *body = json_object();
	json_t *env = NULL;
	int r = env_to_json(&o->env, &env, err);

	if (r < 0)
		return r;
	(void)json_object_set_new(body, "env", env);
	(void)json_object_set_new(body, "from", json_string(c->words[0]));
	(void)json_object_set_new(body, "name", json_string(c->words[1]));
	if (o->user)
		(void)json_object_set_new(body, "user", json_string(o->user));
	if (o->cwd)
		(void)json_object_set_new(body, "cwd", json_string(o->cwd));
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (flags[i].is_on)
			(void)json_object_set_new(body, flags[i].name, json_true());
	*ret = take_ptr(body);
	return 0;
}

int template_from(struct command *c, struct err *err)
{
	const struct template_opts *opts = c->arg;
	auto_free char *path = remote_path("templates");
	auto_json json_t *body = NULL, *reply = NULL;
	char size[16];
	int r = make_body(c, &opts->from, &body, err);

	if (r == 0)
		r = command_ask(c, "POST", path, body, &reply, err);
	if (r != 0)
		return MIN(r, 0);
	text_bytes(command_number(reply, "bytes"), size);
	printf("%s\n", command_text(reply, "id"));
	(void)fflush(stdout);
	(void)fprintf(stderr, "%s: %s\n", c->words[1], size);
	return 0;
}
