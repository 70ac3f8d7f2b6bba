// SPDX-License-Identifier: Apache-2.0
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <stdio.h>

/* A daemon that is not there, or not for us, is no failure here. */
static int version(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("health");
	auto_free char *shown = NULL;
	auto_json json_t *reply = NULL, *both = json_object();
	bool has_daemon = remote_open(&c->common, &c->remote, err) == 0 &&
	                  remote_call(c->remote, "GET", path, NULL, &reply, err) == 0;
	const json_t *daemon = has_daemon ? json_object_get(reply, "version") : NULL;

	if (c->common.json) {
		(void)json_object_set_new(both, "cloche", json_string(CLOCHE_VERSION));
		(void)json_object_set_new(both, "daemon",
		                          daemon ? json_deep_copy(daemon) : json_null());
		command_print_json(both);
		return 0;
	}
	shown = text_escaped(has_daemon ? command_text(reply, "version") : "not reachable");
	printf("cloche %s\ndaemon %s\n", CLOCHE_VERSION, shown);
	return 0;
}

int cmd_version(int argc, char **argv)
{
	const struct manual manual = {
		.name = "version",
		.synopsis = "[OPTIONS]",
		.about = "Prints the version of this program, and of the daemon if one answers.",
		.examples = "  cloche version --json",
	};

	return command_main_offline(&manual, argc, argv, version, NULL);
}
