// SPDX-License-Identifier: Apache-2.0
#include "cli/frame/command.h"
#include "cli/session/spec.h"
#include "cli/term/text.h"

#include <stdio.h>

struct rm {
	bool all, force;
	const char *tag, *group;
};

/* Tells of a failure itself and goes on: gives whether it is gone. */
static bool remove_one(struct command *c, const char *id, json_t *removed)
{
	const struct rm *opts = c->arg;
	auto_free char *path = remote_path("sandboxes", id);
	json_t *reply = NULL;
	struct err err;
	int r = remote_call(c->remote, "DELETE", path, NULL, &reply, &err);

	if (r < 0) {
		if (opts->force && err.code == ERR_NOT_FOUND)
			return true;
		(void)text_fail(&err);
		return false;
	}
	if (!c->common.json) {
		auto_free char *shown = text_escaped(id);

		printf("%s\n", shown);
	}
	(void)json_array_append_new(removed, reply);
	return true;
}

static int remove_all(struct command *c, json_t *removed, bool *ret_ok, struct err *err)
{
	const struct rm *opts = c->arg;

	for (;;) { /* the first page again and again: each time what was on it is gone */
		char *path = remote_query(remote_path("sandboxes"), "limit", "100");
		auto_free char *tag = opts->tag ? tag_to_query(opts->tag) : NULL;
		auto_json json_t *reply = NULL;
		const json_t *list, *s;
		bool any_gone = false;
		size_t i;
		int r;

		if (tag)
			path = remote_query(path, "tag", tag);
		if (opts->group)
			path = remote_query(path, "group", opts->group);
		r = remote_call(c->remote, "GET", path, NULL, &reply, err);
		free(path);
		if (r < 0)
			return r;
		list = json_object_get(reply, "sandboxes");
		json_array_foreach(list, i, s)
		{
			bool ok = remove_one(c, command_text(s, "id"), removed);

			any_gone |= ok;
			*ret_ok &= ok;
		}
		if (!any_gone || !json_is_string(json_object_get(reply, "next_cursor")))
			return 0;
	}
}

static int rm(struct command *c, struct err *err)
{
	const struct rm *opts = c->arg;
	auto_json json_t *removed = json_array();
	bool ok = true;
	int r = 0;

	if ((opts->all || opts->tag || opts->group) == (c->n_words > 0)) {
		(void)err_set(err, ERR_INVALID_FIELD, 0,
		              "name the sandboxes, or give --all, --tag or --group");
		return err_hint(err, "cloche rm SANDBOX…");
	}
	for (size_t i = 0; i < c->n_words; i++)
		ok &= remove_one(c, c->words[i], removed);
	if (c->n_words == 0)
		r = remove_all(c, removed, &ok, err);
	if (c->common.json)
		command_print_json(removed);
	if (r < 0)
		return r;
	return ok ? 0 : EXIT_CLOCHE;
}

int cmd_rm(int argc, char **argv)
{
	struct rm opts = {0};
	const struct opt rows[] = {
		{0, "all", OPT_FLAG, &opts.all, NULL, "all sandboxes that are alive"},
		{0, "tag", OPT_TEXT, &opts.tag, "K=V",
	         "all sandboxes that are alive and have this tag"},
		{0, "group", OPT_TEXT, &opts.group, "NAME",
	         "all sandboxes that are alive and in this group"},
		{'f', "force", OPT_FLAG, &opts.force, NULL,
	         "do not fail if a sandbox does not exist"},
	};
	const struct manual manual = {
		.name = "rm",
		.synopsis = "[OPTIONS] SANDBOX…\n[OPTIONS] --all | --tag K=V | --group NAME",
		.about = "Ends sandboxes with everything in them. Returns when nothing of them is "
			 "left on the host.\nA sandbox that had already ended is forgotten.",
		.examples = "  cloche rm build\n"
			    "  cloche rm -f build test\n"
			    "  cloche rm --tag team=blue",
		.max_words = WORDS_MAX,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, rm, &opts);
}
