// SPDX-License-Identifier: Apache-2.0
#include "base/parse.h"
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

struct url_opts {
	uint64_t expires_ms;
	bool is_public, closes;
};

static int open_port(struct command *c, uint64_t port, const struct url_opts *o, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "ports");
	auto_json json_t *body =
		json_pack("{s:I, s:b}", "port", (json_int_t)port, "public", (int)o->is_public);
	auto_json json_t *reply = NULL;
	const char *url;
	int r;

	if (o->expires_ms > 0)
		(void)json_object_set_new(body, "expires_in_ms",
		                          json_integer((json_int_t)o->expires_ms));
	r = command_ask(c, "POST", path, body, &reply, err);
	if (r != 0)
		return MIN(r, 0);
	url = command_text(reply, "private_daemon_url");
	url = *url ? url : command_text(reply, "url");
	if (!*url) {
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "the daemon listens on a unix socket only: no browser can reach it");
		return err_hint(err, "use 'cloche port-forward', or start it with --listen");
	}
	printf("%s\n", url);
	return 0;
}

static int close_port(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "ports", c->words[1]);

	return remote_call(c->remote, "DELETE", path, NULL, NULL, err);
}

static int url(struct command *c, struct err *err)
{
	const struct url_opts *o = c->arg;
	uint64_t port;

	if (parse_u64(c->words[1], UINT16_MAX, &port) < 0 || port == 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is not a port", c->words[1]);
	return o->closes ? close_port(c, err) : open_port(c, port, o, err);
}

int cmd_url(int argc, char **argv)
{
	struct url_opts o = {0};
	const struct opt opts[] = {
		{'e', "expires", OPT_MS, &o.expires_ms, "TIME",
	         "how long the link works (default: as long as the sandbox lives)"},
		{0, "public", OPT_FLAG, &o.is_public, NULL, "let anybody in, without a token"},
		{0, "close", OPT_FLAG, &o.closes, NULL, "close the port again"},
	};
	const struct manual manual = {
		.name = "url",
		.synopsis = "[OPTIONS] SANDBOX PORT",
		.about = "Opens a port of a sandbox, and prints a link to the server that listens "
			 "on it. Each call makes a new\n"
			 "link, and the one before it stops working.",
		.examples = "  cloche url box 3000\n"
			    "  cloche url --expires 1h box 3000\n"
			    "  cloche url --close box 3000",
		.min_words = 2,
		.max_words = 2,
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};

	return command_main(&manual, argc, argv, url, &o);
}
