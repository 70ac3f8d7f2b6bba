// SPDX-License-Identifier: Apache-2.0
/*
 * Who comes from whom, drawn. The daemon gives nodes with their parents; a node's children are
 * looked for among the rest, which is enough for the few thousand that it gives at most. A line of
 * descent may be as long as that: what is too deep to be drawn is left out and counted.
 */
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 64

struct drawing {
	const json_t *nodes;
	const char *asked;         /* by its id or name: marked */
	char stems[DEPTH_MAX * 4]; /* what stands before a line */
	size_t n_deep;
};

static void print_node(const struct drawing *d, const json_t *node)
{
	const char *id = command_text(node, "id"), *name = command_text(node, "name");
	auto_free char *shown = text_escaped(name);
	auto_free char *state = text_escaped(command_text(node, "state"));
	auto_free char *named = text_escaped(id);
	bool is_asked = strcmp(id, d->asked) == 0 || (name[0] && strcmp(name, d->asked) == 0);

	printf("%s %s%s%s  %s%s\n", command_text(node, "kind"), named, name[0] ? " " : "", shown,
	       state, is_asked ? "  *" : "");
}

static void draw(struct drawing *d, const json_t *node, size_t depth)
{
	const char *id = command_text(node, "id");
	const json_t *one, *last = NULL;
	size_t i, len = strlen(d->stems);

	print_node(d, node);
	json_array_foreach(d->nodes, i, one)
	{
		if (strcmp(command_text(one, "parent_id"), id) == 0)
			last = one;
	}
	json_array_foreach(d->nodes, i, one)
	{
		if (strcmp(command_text(one, "parent_id"), id) != 0)
			continue;
		if (depth + 1 == DEPTH_MAX) {
			d->n_deep++;
			continue;
		}
		printf("%s%s", d->stems, one == last ? "`-- " : "|-- ");
		(void)snprintf(d->stems + len, sizeof(d->stems) - len, "%s",
		               one == last ? "    " : "|   ");
		draw(d, one, depth + 1);
		d->stems[len] = '\0';
	}
}

/* A sandbox's or a snapshot's. */
static int get_tree(struct command *c, json_t **ret, struct err *err)
{
	bool is_snapshot = strncmp(c->words[0], "sn_", 3) == 0;
	auto_free char *path =
		remote_path(is_snapshot ? "snapshots" : "sandboxes", c->words[0], "tree");
	auto_free char *other = remote_path("snapshots", c->words[0], "tree");
	int r = remote_call(c->remote, "GET", path, NULL, ret, err);
	struct err second;

	if (r < 0 && err->code == ERR_NOT_FOUND && !is_snapshot &&
	    remote_call(c->remote, "GET", other, NULL, ret, &second) == 0)
		r = 0;
	return r;
}

static int tree(struct command *c, struct err *err)
{
	auto_json json_t *reply = NULL;
	struct drawing d = {.asked = c->words[0]};
	int r = get_tree(c, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json) {
		command_print_json(reply);
		return 0;
	}
	d.nodes = json_object_get(reply, "nodes");
	if (json_array_size(d.nodes) > 0)
		draw(&d, json_array_get(d.nodes, 0), 0);
	if (d.n_deep > 0)
		printf("(%zu more are deeper)\n", d.n_deep);
	return 0;
}

int cmd_tree(int argc, char **argv)
{
	const struct manual manual = {
		.name = "tree",
		.synopsis = "SANDBOX|SNAPSHOT",
		.about = "Draws where a sandbox or snapshot comes from, and everything else that "
			 "came from there.",
		.examples = "  cloche tree agent",
		.min_words = 1,
		.max_words = 1,
	};

	return command_main(&manual, argc, argv, tree, NULL);
}
