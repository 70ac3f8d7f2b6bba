// SPDX-License-Identifier: Apache-2.0
#include "cli/frame/command.h"
#include "cli/session/build_follow.h"
#include "daemon/daemon.h"

/* Of the daemon's replies, which live as long as the word. */
struct told {
	json_t *templates, *health, *builds;
	struct doctor_word word;
};

static void read_templates(struct told *t)
{
	size_t i;
	const json_t *one;

	json_array_foreach(json_object_get(t->templates, "templates"), i, one)
	{
		const uint64_t copies = command_number(one, "warm_copies");

		t->word.warm_copies += copies;
		t->word.templates += copies > 0;
	}
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

static void read_health(struct told *t)
{
	size_t i;
	const json_t *one;

	t->word.engine = text_of(json_object_get(t->health, "default_engine"), "engine");
	t->word.engine_reason = text_of(json_object_get(t->health, "default_engine"), "reason");
	t->word.is_ready = json_is_true(json_object_get(t->health, "ready"));
	json_array_foreach(json_object_get(t->health, "problems"), i, one)
	{
		if (t->word.n_problems == DOCTOR_PROBLEMS_MAX)
			break;
		t->word.problems[t->word.n_problems++] =
			(struct doctor_problem){.code = text_of(one, "code"),
		                                .message = text_of(one, "message"),
		                                .hint = text_of(one, "hint")};
	}
}

static void read_builds(struct told *t)
{
	size_t i;
	const json_t *one;

	json_array_foreach(json_object_get(t->builds, "builds"), i, one)
	{
		if (t->word.n_builds == DOCTOR_BUILDS_MAX)
			break;
		if (build_is_going(one))
			t->word.builds[t->word.n_builds++] = (struct doctor_build){
				.name = text_of(one, "name"), .progress = build_progress(one)};
	}
}

static void told_done(struct told *t)
{
	for (size_t i = 0; i < t->word.n_builds; i++)
		free(t->word.builds[i].progress);
	json_decref(t->templates);
	json_decref(t->health);
	json_decref(t->builds);
}

/* A daemon that is not there, or not for us, is no failure here. */
static bool ask(struct command *c, struct told *t)
{
	auto_free char *templates = remote_path("templates"), *health = remote_path("health");
	auto_free char *builds = remote_path("builds");
	struct err err;

	if (remote_open(&c->common, &c->remote, &err) < 0 ||
	    remote_call(c->remote, "GET", templates, NULL, &t->templates, &err) < 0 ||
	    remote_call(c->remote, "GET", health, NULL, &t->health, &err) < 0 ||
	    remote_call(c->remote, "GET", builds, NULL, &t->builds, &err) < 0)
		return false;
	read_templates(t);
	read_health(t);
	read_builds(t);
	return true;
}

struct doctor_opts {
	bool upgrade;
	char *data, *run;
};

static int doctor(struct command *c, struct err *err)
{
	const struct doctor_opts *opts = c->arg;
	struct told told = {0};
	bool has_daemon;
	int code;

	if (opts->upgrade)
		return doctor_upgrade(c->common.json, opts->data ? opts->data : "/var/lib/cloche",
		                      opts->run ? opts->run : "/run/cloche", err);
	has_daemon = ask(c, &told);
	code = doctor_run(c->common.json, has_daemon ? &told.word : NULL);
	told_done(&told);
	return code;
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor_opts opts = {0};
	const struct opt rows[] = {
		{0, "upgrade", OPT_FLAG, &opts.upgrade, NULL,
	         "say what this program could not take over from an older daemon"},
		{0, "data", OPT_TEXT, &opts.data, "DIR",
	         "of the daemon, for --upgrade (default /var/lib/cloche)"},
		{0, "run", OPT_TEXT, &opts.run, "DIR", "likewise (default /run/cloche)"},
	};
	const struct manual manual = {
		.name = "doctor",
		.synopsis = "[OPTIONS]",
		.about =
			"Says what this host can do, what is missing, what that is needed for, "
			"and how to get it. If a daemon\n"
			"answers, it also says what is wrong with it, what to do first, how "
			"many warm copies it has, and which\n"
			"templates it is building. The exit status is 0 if sandboxes can run here, "
			"and 1 if not. As root\n"
			"it sees more.\n"
			"With --upgrade it names each sandbox, snapshot and saved memory that an "
			"upgrade would lose: run the\n"
			"newer program with it while the older daemon runs. The exit status is 0 "
			"if there is none. It changes\n"
			"nothing.",
		.examples = "  sudo cloche doctor\n"
			    "  cloche doctor --json | jq '.checks[] | select(.present | not)'\n"
			    "  sudo cloche doctor --upgrade",
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main_offline(&manual, argc, argv, doctor, &opts);
}
