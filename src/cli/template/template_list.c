// SPDX-License-Identifier: Apache-2.0
#include "cli/template/template_list.h"

#include "base/clock.h"
#include "cli/session/spec.h"
#include "cli/template/cmd_template.h"
#include "cli/term/sheet.h"
#include "cli/term/text.h"

#include <stdio.h>

static void print_templates(const json_t *templates)
{
	static const char *const heads[] = {"NAME", "SIZE", "OWNER", "SANDBOXES",
	                                    "WARM", "AGE",  "DIGEST"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	uint64_t now = clock_wall_us();
	size_t i;
	const json_t *one;

	json_array_foreach(templates, i, one)
	{
		bool is_host = json_is_null(json_object_get(one, "id"));
		bool is_shared = json_is_true(json_object_get(one, "shared"));
		uint64_t created = command_number(one, "created_us");
		char age[16], size[16], users[24], warm[24], digest[20];

		text_age(now > created ? now - created : 0, age);
		text_bytes(command_number(one, "bytes"), size);
		(void)snprintf(users, sizeof(users), "%llu",
		               (unsigned long long)command_number(one, "sandboxes"));
		(void)snprintf(warm, sizeof(warm), "%llu",
		               (unsigned long long)command_number(one, "warm_copies"));
		(void)snprintf(digest, sizeof(digest), "%.19s", command_text(one, "digest"));
		table_add(&t, command_text(one, "name"));
		table_add(&t, is_host ? NULL : size);
		table_add(&t, is_host ? "this machine" : is_shared ? "shared" : "project");
		table_add(&t, is_host ? NULL : users);
		table_add(&t, is_host ? NULL : warm);
		table_add(&t, is_host ? NULL : age);
		table_add(&t, is_host ? NULL : digest);
	}
	table_print(&t);
	table_done(&t);
}

int template_ls(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("templates");
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(json_object_get(reply, "templates"));
	else
		print_templates(json_object_get(reply, "templates"));
	return 0;
}

int template_inspect(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("templates", c->words[0]);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(reply);
	else
		sheet_print(reply);
	return 0;
}

int template_rm(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("templates", c->words[0]);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "DELETE", path, NULL, &reply, err);

	if (r == 0 && c->common.json)
		command_print_json(reply);
	return r;
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
		r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r < 0)
		return r;
	if (c->common.json) {
		command_print_json(reply);
		return 0;
	}
	text_bytes(command_number(reply, "bytes"), size);
	printf("%s\n", command_text(reply, "id"));
	(void)fflush(stdout);
	(void)fprintf(stderr, "%s: %s\n", c->words[1], size);
	return 0;
}
