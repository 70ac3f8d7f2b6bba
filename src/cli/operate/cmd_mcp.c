// SPDX-License-Identifier: Apache-2.0
/* mcp: sandboxes for an agent's program that starts us and speaks MCP. */
#include "cli/frame/command.h"
#include "cli/operate/mcp_bridge.h"
#include "cli/session/fresh.h"

struct mcp_opts {
	struct sandbox_opts sandbox;
	uint64_t timeout_ms, idle_timeout_ms;
	const char *given; /* an existing sandbox */
};

static int make_path(const struct mcp_opts *o, char **ret, struct err *err)
{
	auto_json json_t *create = NULL;
	auto_free char *text = NULL;
	int r = sandbox_opts_to_json(&o->sandbox, o->timeout_ms, &create, err);

	if (r < 0)
		return r;
	if (o->sandbox.packages.n > 0) {
		(void)err_field(err, "--package", "is not possible here");
		return err_hint(err, "build a template with them: 'cloche template build --help'");
	}
	if (o->idle_timeout_ms)
		(void)json_object_set_new(create, "idle_timeout_ms",
		                          json_integer((json_int_t)o->idle_timeout_ms));
	text = json_dumps(create, JSON_COMPACT);
	*ret = remote_query(xstrdup("/mcp"), "create", text ? text : "{}");
	if (o->given)
		*ret = remote_query(*ret, "sandbox", o->given);
	return 0;
}

static int do_mcp(struct command *c, struct err *err)
{
	const struct mcp_opts *o = c->arg;
	auto_call(private_daemon_stopp) struct private_daemon *own = NULL;
	auto_free char *path = NULL;
	int r = make_path(o, &path, err);

	if (r < 0)
		return r;
	r = remote_open(&c->common, &c->remote, err);
	if (r == -ENOTCONN)
		r = fresh_private_daemon(NULL, &own, &c->remote, err);
	return r < 0 ? r : mcp_bridge_run(c->remote, path, err);
}

int cmd_mcp(int argc, char **argv)
{
	struct mcp_opts o = {0};
	const struct opt rows[] = {
		SANDBOX_OPT_ROWS(o.sandbox),
		{0, "timeout", OPT_MS, &o.timeout_ms, "TIME",
	         "end a sandbox this long after its start (default: 24h)"},
		{0, "idle-timeout", OPT_MS, &o.idle_timeout_ms, "TIME",
	         "end it when nothing ran in it for this long (default: 30m)"},
		{0, "sandbox", OPT_TEXT, &o.given, "NAME",
	         "work in this one, which stays, instead of making one"},
	};
	const struct manual manual = {
		.name = "mcp",
		.synopsis = "[OPTIONS]",
		.about = "Speaks the Model Context Protocol on stdin and stdout: an agent that "
			 "starts this has tools to run\ncode and commands and to work with files, "
			 "in a sandbox that is made at the first call and deleted\nwhen the agent "
			 "ends. The options describe that sandbox. The daemon serves the same over "
			 "HTTP at\n/mcp. docs/mcp.md shows how to set up clients.",
		.examples = "  claude mcp add cloche -- cloche mcp\n"
			    "  cloche mcp --template python --network allow-all\n"
			    "  cloche mcp --url https://box.example --key-file ~/.cloche-key",
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};
	int status = command_main_offline(&manual, argc, argv, do_mcp, &o);

	sandbox_opts_done(&o.sandbox);
	return status;
}
