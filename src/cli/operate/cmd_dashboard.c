// SPDX-License-Identifier: Apache-2.0
/*
 * The way into the dashboard for somebody who can already use the daemon from a shell: a link that
 * lets one browser in, once. Its token stands behind the #, which no browser sends to a server.
 */
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct dashboard_opts {
	bool only_prints;
};

/* Where a browser finds it: as we were told to reach it, or as the daemon believes. */
static const char *base_of(const struct command *c, const json_t *reply)
{
	const char *url = c->common.url ? c->common.url : getenv("CLOCHE_URL");

	return url && strncmp(url, "http", 4) == 0 ? url : command_text(reply, "url");
}

static bool has_display(void)
{
	const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");

	return (x && *x) || (wayland && *wayland);
}

/* Not waited for: a browser that is started by it may stay. What it says is nobody's business. */
static void open_link(char *link)
{
	char program[] = "xdg-open";
	char *argv[] = {program, link, NULL};
	int null_fd;

	if (fork() != 0)
		return;
	(void)setsid();
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null_fd >= 0 && fd <= 2; fd++)
		(void)dup2(null_fd, fd);
	(void)execvp(program, argv);
	_exit(127);
}

static int dashboard(struct command *c, struct err *err)
{
	const struct dashboard_opts *o = c->arg;
	auto_free char *path = remote_path("login", "links");
	auto_free char *link = NULL;
	auto_json json_t *reply = NULL;
	const char *base;
	int r = remote_call(c->remote, "POST", path, NULL, &reply, err);

	if (r < 0)
		return r;
	base = base_of(c, reply);
	if (!*base) {
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "the daemon listens on a unix socket only: no browser can reach it");
		return err_hint(err, "start it with --listen 127.0.0.1:7070");
	}
	link = xasprintf("%.*s/#link=%s", (int)(strlen(base) - (base[strlen(base) - 1] == '/')),
	                 base, command_text(reply, "link"));
	if (c->common.json) {
		(void)json_object_set_new(reply, "url", json_string(link));
		command_print_json(reply);
		return 0;
	}
	printf("%s\n", link);
	if (!o->only_prints && has_display())
		open_link(link);
	return 0;
}

int cmd_dashboard(int argc, char **argv)
{
	struct dashboard_opts o = {0};
	const struct opt opts[] = {
		{'n', "no-open", OPT_FLAG, &o.only_prints, NULL, "only print the link"},
	};
	const struct manual manual = {
		.name = "dashboard",
		.synopsis = "[--no-open]",
		.about = "Prints a link to the dashboard, and opens it if there is a display. The "
			 "link logs one browser in, once,\n"
			 "within two minutes. That browser has the rights of the key that was used "
			 "here, or root's rights if the\n"
			 "link was made over the daemon's own socket.",
		.examples = "  cloche dashboard\n"
			    "  ssh -L 7070:127.0.0.1:7070 host cloche dashboard --no-open",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};

	return command_main(&manual, argc, argv, dashboard, &o);
}
