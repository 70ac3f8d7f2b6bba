// SPDX-License-Identifier: Apache-2.0
/* apply: a fork's changes, brought to its parent. */
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

struct apply {
	const char *to, *on_conflict, *base;
};

/* The sandbox that a fork was made of, by its snapshot. */
static int find_parent(struct command *c, char **ret, struct err *err)
{
	auto_free char *fork_path = remote_path("sandboxes", c->words[0]), *path = NULL;
	auto_json json_t *fork = NULL, *snapshot = NULL;
	int r = remote_call(c->remote, "GET", fork_path, NULL, &fork, err);

	if (r < 0)
		return r;
	if (!command_text(fork, "snapshot_id")[0]) {
		(void)err_set(err, ERR_CONFLICT, 0, "'%s' is not a fork", c->words[0]);
		return err_hint(err, "name the sandbox that gets its changes: --to SANDBOX");
	}
	path = remote_path("snapshots", command_text(fork, "snapshot_id"));
	r = remote_call(c->remote, "GET", path, NULL, &snapshot, err);
	if (r == 0)
		*ret = xstrdup(command_text(snapshot, "sandbox_id"));
	return r;
}

static int print_result(const json_t *reply)
{
	const bool is_applied = json_is_true(json_object_get(reply, "applied"));
	const uint64_t conflicts = command_number(reply, "conflict_count");
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(reply, "conflicts"), i, one)
	{
		auto_free char *path = text_escaped(command_text(one, "path"));

		printf("conflict %s\n", path);
	}
	if (is_applied)
		printf("%llu changes, %llu conflicts\n",
		       (unsigned long long)command_number(reply, "changes"),
		       (unsigned long long)conflicts);
	else
		(void)fprintf(stderr, "cloche: nothing was applied; see --on-conflict\n");
	return is_applied ? 0 : 1;
}

static int do_apply(struct command *c, struct err *err)
{
	const struct apply *o = c->arg;
	auto_free char *to = o->to ? xstrdup(o->to) : NULL, *path = NULL;
	auto_json json_t *body = json_object(), *reply = NULL;
	int r = to ? 0 : find_parent(c, &to, err);

	if (r < 0)
		return r;
	path = remote_path("sandboxes", to, "apply");
	(void)json_object_set_new(body, "from", json_string(c->words[0]));
	if (o->on_conflict)
		(void)json_object_set_new(body, "on_conflict", json_string(o->on_conflict));
	if (o->base)
		(void)json_object_set_new(body, "base", json_string(o->base));
	remote_note(c->remote, "applying");
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r < 0)
		return r;
	if (!c->common.json)
		return print_result(reply);
	command_print_json(reply);
	return json_is_true(json_object_get(reply, "applied")) ? 0 : 1;
}

int cmd_apply(int argc, char **argv)
{
	struct apply opts = {0};
	const struct opt rows[] = {
		{0, "to", OPT_TEXT, &opts.to, "SANDBOX",
	         "apply to this sandbox (default: the fork's parent)"},
		{0, "on-conflict", OPT_TEXT, &opts.on_conflict, "WHAT",
	         "fail: apply nothing (default); skip: all but the conflicts; theirs: the fork's "
	         "files win"},
		{0, "base", OPT_TEXT, &opts.base, "SNAPSHOT",
	         "compare with this snapshot (default: the latest that both come from)"},
	};
	const struct manual manual = {
		.name = "apply",
		.synopsis = "[OPTIONS] FORK",
		.about = "Brings the changes that a fork made to its files into its parent, or "
			 "into another sandbox. A path that\n"
			 "both have changed is a conflict: it is printed, and nothing is applied "
			 "unless --on-conflict says so.",
		.examples = "  cloche fork --files --name try agent\n"
			    "  cloche exec try make fix\n"
			    "  cloche diff agent try\n"
			    "  cloche apply try",
		.min_words = 1,
		.max_words = 1,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, do_apply, &opts);
}
