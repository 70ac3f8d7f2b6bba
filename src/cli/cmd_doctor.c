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

struct doctor_opts {
	bool upgrade;
	char *data, *run;
};

static int doctor(struct command *c, struct err *err)
{
	const struct doctor_opts *opts = c->arg;
	struct doctor_word word;
	bool has_daemon;

	if (opts->upgrade)
		return doctor_upgrade(c->common.json, opts->data ? opts->data : "/var/lib/cloche",
		                      opts->run ? opts->run : "/run/cloche", err);
	has_daemon = ask(c, &word);
	return doctor_run(c->common.json, has_daemon ? &word : NULL);
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor_opts opts = {0};
	const struct opt rows[] = {
		{0, "upgrade", OPT_FLAG, &opts.upgrade, NULL,
	         "say what this program would not carry over of what an older one has left"},
		{0, "data", OPT_TEXT, &opts.data, "DIR",
	         "of the daemon, for --upgrade (default /var/lib/cloche)"},
		{0, "run", OPT_TEXT, &opts.run, "DIR", "likewise (default /run/cloche)"},
	};
	const struct manual manual = {
		.name = "doctor",
		.synopsis = "[OPTIONS]",
		.about =
			"Says what this host can do, what is missing, what that would be for, and "
			"how to get it;\nof the daemon, if one answers, how many warm copies it "
			"has.\nThe exit status is 0 if sandboxes can run here, and 1 if not. As "
			"root it sees more.\nWith --upgrade, run by the newer program while the "
			"older daemon runs: names each sandbox, snapshot\nand memory that would be "
			"lost. The exit status is 0 if there is none. It changes nothing.",
		.examples = "  sudo cloche doctor\n"
			    "  cloche doctor --json | jq '.checks[] | select(.present | not)'\n"
			    "  sudo cloche doctor --upgrade",
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main_offline(&manual, argc, argv, doctor, &opts);
}
