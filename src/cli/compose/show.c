// SPDX-License-Identifier: Apache-2.0
/* The subcommands of `cloche compose` beside up. */
#include "base/json/json.h"
#include "cli/compose/logs.h"
#include "cli/compose/project.h"
#include "cli/compose/service.h"
#include "cli/compose/up.h"
#include "cli/session/session.h"
#include "cli/session/spec.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

int compose_down(struct command *c, struct err *err)
{
	struct project p;
	int r = project_open_name(c, &p, err);

	if (r == 0)
		r = project_remove(&p, c->remote, err);
	project_done(&p);
	return r;
}

int compose_logs(struct command *c, struct err *err)
{
	const struct compose_opts *o = c->arg;
	struct project p;
	int r = project_open_name(c, &p, err);

	if (r == 0)
		r = logs_print(&p, c->n_words ? c->words[0] : NULL, o->follows, err);
	project_done(&p);
	return r;
}

int compose_config(struct command *c, struct err *err)
{
	struct project p;
	int r = project_open(c, &p, err);
	auto_free char *text = NULL;

	if (r == 0) {
		(void)json_object_set_new(p.model, "name", json_string(p.name));
		text = json_dumps(p.model, JSON_INDENT(2));
		printf("%s\n", text ? text : "");
	}
	project_done(&p);
	return r;
}

/* "running", "exited (3)", or the sandbox's own state. */
static char *state_of(struct command *c, const json_t *member)
{
	const char *exec = project_tag(member, "compose_exec"),
		   *state = command_text(member, "state");
	auto_free char *path = remote_path("sandboxes", command_text(member, "id"), "execs", exec);
	auto_json json_t *reply = NULL;
	struct err err;

	if (strcmp(state, "running") != 0)
		return xstrdup(state);
	if (!*exec)
		return xstrdup("starting");
	if (strcmp(exec, "none") == 0)
		return xstrdup("idle");
	if (remote_call(c->remote, "GET", path, NULL, &reply, &err) < 0)
		return xstrdup("unknown");
	if (!service_exec_is_over(reply))
		return xstrdup("running");
	if (json_is_object(json_object_get(reply, "error")))
		return xstrdup("failed");
	if (command_number(reply, "signal") > 0)
		return xasprintf("exited (signal %d)", (int)command_number(reply, "signal"));
	return xasprintf("exited (%d)", (int)command_number(reply, "exit_code"));
}

static char *ports_of(const json_t *member)
{
	char *text = xstrdup("");
	const json_t *port;
	size_t i;

	json_array_foreach(json_object_get(member, "ports"), i, port)
	{
		const char *url = *command_text(port, "host_url") ? command_text(port, "host_url")
		                                                  : command_text(port, "url");
		char *longer = xasprintf("%s%s%d%s%s", text, *text ? ", " : "",
		                         (int)command_number(port, "port"), *url ? " " : "", url);

		free(text);
		text = longer;
	}
	return text;
}

static void show(struct command *c, const json_t *members)
{
	static const char *const heads[] = {"SERVICE", "SANDBOX", "STATE", "PORTS"};
	struct table table = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	auto_json json_t *list = json_array();

	for (size_t i = json_array_size(members); i > 0; i--) {
		const json_t *one = json_array_get(members, i - 1);
		auto_free char *state = state_of(c, one), *ports = ports_of(one);
		const char *cells[] = {project_tag(one, "compose_service"), command_text(one, "id"),
		                       state, *ports ? ports : NULL};

		for (size_t k = 0; k < ARRAY_SIZE(cells); k++)
			table_add(&table, cells[k]);
		(void)json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:s, s:O?}", "service", cells[0],
		                        "sandbox_id", cells[1], "state", state, "exec_id",
		                        project_tag(one, "compose_exec"), "ports",
		                        json_object_get(one, "ports")));
	}
	if (c->common.json)
		command_print_json(list);
	else
		table_print(&table);
	table_done(&table);
}

int compose_ps(struct command *c, struct err *err)
{
	struct project p;
	auto_json json_t *members = NULL;
	int r = project_open_name(c, &p, err);

	if (r == 0)
		r = project_members(&p, c->remote, &members, err);
	if (r == 0)
		show(c, members);
	project_done(&p);
	return r;
}

static int make_exec(struct command *c, size_t first, json_t **ret, struct err *err)
{
	const struct compose_opts *o = c->arg;
	auto_json json_t *body = json_object();
	json_t *value = NULL;
	int r = argv_to_json(c->words + first, c->n_words - first, &value, err);

	if (r < 0)
		return r;
	(void)json_object_set_new(body, "argv", value);
	r = env_to_json(&o->env, &value, err);
	if (r < 0)
		return r;
	(void)json_object_set_new(body, "env", value);
	if (o->user)
		(void)json_object_set_new(body, "user", json_string(o->user));
	if (o->cwd)
		(void)json_object_set_new(body, "cwd", json_string(o->cwd));
	(void)json_object_set_new(body, "timeout_ms", json_integer((json_int_t)o->exec_timeout_ms));
	*ret = take_ptr(body);
	return 0;
}

static int exec_in(struct command *c, const char *sandbox, size_t first, struct err *err)
{
	const struct compose_opts *o = c->arg;
	auto_call(interrupt_stopp) struct interrupt *interrupt = NULL;
	auto_json json_t *body = NULL, *reply = NULL;
	struct session session = {.remote = c->remote,
	                          .sandbox = sandbox,
	                          .wants_stdin = o->wants_stdin,
	                          .wants_pty = o->wants_pty,
	                          .json = c->common.json};
	int r = make_exec(c, first, &body, err);

	if (r < 0)
		return r;
	if (o->is_detached) {
		auto_free char *path = remote_path("sandboxes", sandbox, "execs");

		(void)json_object_set_new(body, "detached", json_true());
		r = remote_call(c->remote, "POST", path, body, &reply, err);
		if (r == 0)
			command_print_reply(c, json_object_get(reply, "exec"), "id");
		return r;
	}
	r = interrupt_start(&interrupt, err);
	if (r < 0)
		return r;
	session.body = body;
	session.interrupt = interrupt;
	return session_run(&session, err);
}

int compose_exec(struct command *c, struct err *err)
{
	const size_t first = strcmp(c->words[1], "--") == 0 ? 2 : 1;
	auto_json json_t *members = NULL;
	const json_t *member;
	struct project p;
	int r = project_open_name(c, &p, err);

	if (r == 0 && first == c->n_words)
		r = err_set(err, ERR_INVALID_FIELD, 0, "there is no command behind the '--'");
	if (r == 0)
		r = project_members(&p, c->remote, &members, err);
	if (r == 0) {
		member = project_member_of(members, c->words[0]);
		r = member ? exec_in(c, command_text(member, "id"), first, err)
		           : err_set(err, ERR_NOT_FOUND, 0,
		                     "the project '%s' has no service '%s' that runs", p.name,
		                     c->words[0]);
	}
	project_done(&p);
	return r;
}
