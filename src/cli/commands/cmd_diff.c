// SPDX-License-Identifier: Apache-2.0
/* diff: what differs from one snapshot or sandbox to another. */
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

struct diff {
	bool has_patch;
	uint64_t limit;
};

static char sign_of(const json_t *change)
{
	const char *kind = command_text(change, "kind");

	return strcmp(kind, "added") == 0 ? 'A' : strcmp(kind, "deleted") == 0 ? 'D' : 'M';
}

static void print_changed(const json_t *change)
{
	const json_t *one, *changed = json_object_get(change, "changed");
	size_t i;

	if (json_array_size(changed) == 0)
		return;
	json_array_foreach(changed, i, one)
	{
		auto_free char *word = text_escaped(json_string_value(one));

		printf("%s%s", i == 0 ? "  (" : ", ", word);
	}
	printf(")");
}

/* A line of the patch at a time: what is in it was written in a sandbox. */
static void print_patch(const char *patch)
{
	while (*patch) {
		size_t len = strcspn(patch, "\n");
		auto_free char *line = strndup(patch, len);
		auto_free char *shown = line ? text_escaped(line) : NULL;

		printf("%s\n", shown ? shown : "");
		patch += len + (patch[len] == '\n');
	}
}

static void print_change(const json_t *change)
{
	auto_free char *path = text_escaped(command_text(change, "path"));
	const char *patch = command_text(change, "patch");
	const char *omitted = command_text(change, "patch_omitted");

	printf("%c %s", sign_of(change), path);
	print_changed(change);
	if (omitted[0])
		printf("  [%s]", strcmp(omitted, "binary") == 0 ? "binary" : "too large");
	printf("\n");
	print_patch(patch);
}

static int do_diff(struct command *c, struct err *err)
{
	const struct diff *o = c->arg;
	auto_free char *path = remote_query(remote_path("diff"), "from", c->words[0]);
	auto_json json_t *reply = NULL;
	char limit[24];
	const json_t *one;
	size_t i;
	int r;

	(void)snprintf(limit, sizeof(limit), "%llu", (unsigned long long)o->limit);
	path = remote_query(take_ptr(path), "to", c->words[1]);
	path = remote_query(take_ptr(path), "limit", limit);
	if (o->has_patch)
		path = remote_query(take_ptr(path), "patch", "true");
	remote_note(c->remote, "comparing");
	r = command_ask(c, "GET", path, NULL, &reply, err);
	if (r != 0)
		return MIN(r, 0);
	json_array_foreach(json_object_get(reply, "changes"), i, one)
	{
		print_change(one);
	}
	if (json_is_true(json_object_get(reply, "truncated")))
		(void)fprintf(stderr, "cloche: there are more; see --limit\n");
	return 0;
}

int cmd_diff(int argc, char **argv)
{
	struct diff opts = {.limit = 1000};
	const struct opt rows[] = {
		{'p', "patch", OPT_FLAG, &opts.has_patch, NULL,
	         "also show what changed in text files"},
		{0, "limit", OPT_NUMBER, &opts.limit, "N",
	         "print at most N changes (default: 1000)"},
	};
	const struct manual manual = {
		.name = "diff",
		.synopsis = "[OPTIONS] FROM TO",
		.about = "Tells how two snapshots or sandboxes of the same template differ: what "
			 "was added (A), deleted (D) or\n"
			 "modified (M) from FROM to TO, and in which way. A sandbox is compared as "
			 "it is now.",
		.examples = "  cloche snapshot create --name before agent\n"
			    "  cloche exec agent make\n"
			    "  cloche diff before agent\n"
			    "  cloche diff --patch before agent",
		.min_words = 2,
		.max_words = 2,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, do_diff, &opts);
}
