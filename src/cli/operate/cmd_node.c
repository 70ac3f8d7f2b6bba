// SPDX-License-Identifier: Apache-2.0
/* The nodes of a cluster. */
#include "cli/frame/group.h"
#include "cli/operate/cluster_order.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>

static void add_node(struct table *t, const json_t *node)
{
	char number[24], seen[16] = "-", state[40];

	(void)snprintf(number, sizeof(number), "%" PRIu64, command_number(node, "node"));
	if (json_is_integer(json_object_get(node, "seen_ms_ago")))
		text_age(command_number(node, "seen_ms_ago") * 1000, seen);
	table_add(t, number);
	table_add(t, command_text(node, "name"));
	table_add(t, command_text(node, "address"));
	(void)snprintf(state, sizeof(state), "%s%s", command_text(node, "state"),
	               json_is_true(json_object_get(node, "is_cordoned")) ? ", cordoned" : "");
	table_add(t, state);
	table_add(t, seen);
	table_add(t, command_text(json_object_get(node, "problem"), "message"));
	table_add(t, json_is_true(json_object_get(node, "is_here")) ? "this one" : "");
}

static int ls(struct command *c, struct err *err)
{
	static const char *const heads[] = {"NODE", "NAME",          "ADDRESS", "STATE",
	                                    "SEEN", "WHAT IS WRONG", ""};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	auto_json json_t *reply = NULL;
	const json_t *node;
	size_t i;
	int r = cluster_order(c->arg, "nodes", NULL, &reply, err);

	if (r < 0)
		return r;
	if (c->common.json) {
		command_print_json(reply);
		return 0;
	}
	json_array_foreach(json_object_get(reply, "nodes"), i, node)
	{
		add_node(&t, node);
	}
	table_print(&t);
	table_done(&t);
	return 0;
}

static int join(struct command *c, struct err *err)
{
	auto_json json_t *reply = NULL;
	int r = cluster_order(c->arg, "join", c->words[0], &reply, err);

	if (r < 0)
		return r;
	if (c->common.json) {
		command_print_json(reply);
		return 0;
	}
	printf("joined %s as %s, number %" PRIu64 "\n", command_text(reply, "cluster_id"),
	       command_text(reply, "name"), command_number(reply, "node"));
	return 0;
}

/* Of the node that is named, else of this one. */
static int change(struct command *c, const char *order, const char *done, struct err *err)
{
	struct cluster_opts *o = c->arg;
	auto_json json_t *reply = NULL;
	int r;

	o->node = c->n_words > 0 ? c->words[0] : NULL;
	r = cluster_order(o, order, NULL, &reply, err);
	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(reply);
	else
		printf("%s %s\n", command_text(reply, "name"), done);
	return 0;
}

static int cordon(struct command *c, struct err *err)
{
	return change(c, "cordon", "makes no new sandboxes; those that it has go on", err);
}

static int uncordon(struct command *c, struct err *err)
{
	return change(c, "uncordon", "makes sandboxes", err);
}

static int rm(struct command *c, struct err *err)
{
	return change(c, "remove", "is no node of the cluster any more", err);
}

static const struct subcommand subcommands[] = {
	{"ls", ls, "[OPTIONS]",
         "Lists the nodes of the cluster that this machine is in.\nEach is up, silent (nothing "
         "was heard of it for too long), fenced (it may not act until it has joined again), lost "
         "or new.\n`cloche cluster status` says what to do about problems.",
         "  cloche node ls", .n_opts = 1},
	{"join", join, "[OPTIONS] TOKEN",
         "Lets this machine join a cluster, with a token of `cloche cluster invite`.\nThe settings "
         "must name the cluster's database (`postgres` under [cluster]). It waits for the node "
         "that invited to\nsign this one's certificate; if that takes too long, run the command "
         "again.",
         "  cloche node join cloche-join-eyJ2ZXJzaW9uIjox…", .n_words = 1, .n_opts = 4},
	{"cordon", cordon, "[OPTIONS] [NAME]",
         "Stops a node from making new sandboxes, until `cloche node uncordon`. Those that it has "
         "go on, and can be called.\nOn the machine itself, give no name. For another node, give "
         "the login of the database's owner: no node may cordon another.",
         "  cloche node cordon\n"
         "  cloche node cordon node3 --owner 'host=db.example dbname=cloche user=postgres'",
         .n_more = 1, .first_opt = 4, .n_opts = 2},
	{"uncordon", uncordon, "[OPTIONS] [NAME]", "Lets a node make sandboxes again.",
         "  cloche node uncordon", .n_more = 1, .first_opt = 4, .n_opts = 2},
	{"rm", rm, "[OPTIONS] --owner CONNINFO NAME",
         "Removes a node that is cordoned or lost. Its names and quota become free, and its "
         "secret and certificate are revoked.\nSandboxes that still run there are cut off from "
         "the cluster; stop cloche there. The node's name cannot be used again.",
         "  cloche node rm --owner 'host=db.example dbname=cloche user=postgres' node3",
         .n_words = 1, .first_opt = 4, .n_opts = 2},
};

static const struct group group = {
	.name = "node",
	.about = "The machines of a cluster (`cloche cluster`). For root, on the machine itself.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
	.usual = &subcommands[0],
	.is_offline = true,
};

int cmd_node(int argc, char **argv)
{
	struct cluster_opts o = {0};
	const struct opt rows[] = {
		{0, "config", OPT_TEXT, &o.config, "FILE",
	         "the daemon's settings file (default /etc/cloche/cloche.toml)"},
		{0, "name", OPT_TEXT, &o.name, "NAME", "of this node (default: the host's)"},
		{0, "address", OPT_TEXT, &o.address, "HOST:PORT",
	         "where other nodes reach this one (default: the setting `address`)"},
		{0, "replace", OPT_FLAG, &o.is_replacing, NULL,
	         "leave the cluster that this node is in"},
		{0, "config", OPT_TEXT, &o.config, "FILE",
	         "the daemon's settings file (default /etc/cloche/cloche.toml)"},
		{0, "owner", OPT_TEXT, &o.owner, "CONNINFO",
	         "who may make schemas and roles there, as libpq takes it"},
	};

	return group_main(&group, rows, &o, argc, argv);
}
