// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"
#include "daemon/daemon.h"

/* A daemon that is not there, or not for us, is no failure here. */
static bool ask(struct command *c, struct doctor_word *ret)
{
	auto_free char *path = remote_path("templates");
	auto_json json_t *reply = NULL;
	struct err err;
	size_t i;
	const json_t *one;

	if (remote_open(&c->common, &c->remote, &err) < 0 ||
	    remote_call(c->remote, "GET", path, NULL, &reply, &err) < 0)
		return false;
	*ret = (struct doctor_word){0};
	json_array_foreach(json_object_get(reply, "templates"), i, one)
	{
		const uint64_t copies = command_number(one, "warm_copies");

		ret->warm_copies += copies;
		ret->templates += copies > 0;
	}
	return true;
}

static int doctor(struct command *c, struct err *err)
{
	struct doctor_word word;
	const bool has_daemon = ask(c, &word);

	(void)err;
	return doctor_run(c->common.json, has_daemon ? &word : NULL);
}

int cmd_doctor(int argc, char **argv)
{
	const struct manual manual = {
		.name = "doctor",
		.synopsis = "[OPTIONS]",
		.about = "Says what this host can do, what is missing, what that would be for, and "
			 "how to get it;\nof the daemon, if one answers, how many warm copies it "
			 "has.\nThe exit status is 0 if sandboxes can run here, and 1 if not. As "
			 "root it sees more.",
		.examples = "  sudo cloche doctor\n"
			    "  cloche doctor --json | jq '.checks[] | select(.present | not)'",
	};

	return command_main_offline(&manual, argc, argv, doctor, NULL);
}
