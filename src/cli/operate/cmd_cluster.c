// SPDX-License-Identifier: Apache-2.0
/* A cluster as a whole: made, kept up to date, and looked at. */
#include "base/clock.h"
#include "cli/frame/group.h"
#include "cli/operate/cluster_order.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HOUR_MS (3600 * UINT64_C(1000))

static void print_problem(const json_t *problem)
{
	auto_free char *message = NULL, *hint = NULL;

	if (!json_is_object(problem))
		return;
	message = text_escaped(command_text(problem, "message"));
	hint = text_escaped(command_text(problem, "hint"));
	printf("problem    %s: %s\n", command_text(problem, "code"), message);
	if (hint[0])
		printf("           %s\n", hint);
}

/* 0: to be shown to people; 1: shown. */
static int ask(struct command *c, const char *command, json_t **ret, struct err *err)
{
	int r = cluster_order(c->arg, command, NULL, ret, err);

	if (r == 0 && c->common.json) {
		command_print_json(*ret);
		r = 1;
	}
	return r;
}

static int init(struct command *c, struct err *err)
{
	auto_json json_t *reply = NULL;
	int r = ask(c, "init", &reply, err);

	if (r != 0)
		return MIN(r, 0);
	printf("cluster    %s\n", command_text(reply, "cluster_id"));
	printf("this node  %s, number %" PRIu64 ", at %s; it signs the certificates of others\n",
	       command_text(reply, "name"), command_number(reply, "node"),
	       command_text(reply, "address"));
	printf("login      %s: may call the cluster's functions, and nothing else\n",
	       command_text(reply, "user"));
	print_problem(json_object_get(reply, "problem"));
	printf("\nNext: systemctl restart cloche; `cloche cluster status`; for each other machine "
	       "`cloche cluster invite`.\n"
	       "Back up the data directory of this node: the key of the cluster's authority is "
	       "only here.\n");
	return 0;
}

static int migrate(struct command *c, struct err *err)
{
	auto_json json_t *reply = NULL;
	int r = ask(c, "migrate", &reply, err);

	if (r == 0)
		printf("cluster %s has the schema %" PRIu64 "; its rights were given anew\n",
		       command_text(reply, "cluster_id"), command_number(reply, "number"));
	if (r == 0 && json_is_true(json_object_get(reply, "made_keys")))
		printf("It has keys of objects now: copy DATA/cluster/objects.keys from here to "
		       "each\nother node, as root, then there: systemctl restart cloche\n");
	return MIN(r, 0);
}

static int invite(struct command *c, struct err *err)
{
	auto_json json_t *reply = NULL;
	int r = ask(c, "invite", &reply, err);

	if (r != 0)
		return MIN(r, 0);
	printf("%s\n", command_text(reply, "token"));
	(void)fprintf(stderr,
	              "Run on the new machine, once: cloche node join TOKEN\n"
	              "Who has the token can join: keep it to yourself. It is shown only now.\n");
	return 0;
}

static void print_collection(const json_t *c)
{
	const char *state = command_text(c, "state");
	char bytes[16], waiting[16], when[16];
	const json_t *name;
	size_t i;

	if (json_object_get(c, "at_us")) {
		const uint64_t at_us = command_number(c, "at_us"), now_us = clock_wall_us();

		text_bytes(command_number(c, "bytes"), bytes);
		text_bytes(command_number(c, "waiting_bytes"), waiting);
		text_age(now_us > at_us ? now_us - at_us : 0, when);
		printf("           %" PRIu64 " objects, %s; of these nobody needs %" PRIu64
		       ", %s, which wait for a day; %" PRIu64 " were removed (%s, %s ago)\n",
		       command_number(c, "objects"), bytes, command_number(c, "waiting"), waiting,
		       command_number(c, "removed"), command_text(c, "node"), when);
	}
	if (strcmp(state, "off") == 0)
		printf("           this node removes nothing (`objects_collect` under "
		       "[cluster])\n");
	json_array_foreach(json_object_get(c, "untold"), i, name)
	{
		printf("%s%s",
		       i == 0 ? "           nothing is removed before these nodes have told "
		                "what they have: "
		              : ", ",
		       json_string_value(name) ? json_string_value(name) : "?");
	}
	if (i > 0)
		printf("\n           start them, or: cloche node rm NAME\n");
	print_problem(json_object_get(c, "problem"));
}

static void print_objects(const json_t *objects)
{
	if (!objects) {
		printf("objects    none are kept: what a lost node has is lost (`objects` under "
		       "[cluster])\n");
		return;
	}
	printf("objects    %s: %s\n", command_text(objects, "place"),
	       command_text(objects, "state"));
	print_problem(json_object_get(objects, "problem"));
	print_collection(json_object_get(objects, "collection"));
}

static void print_status(const json_t *s)
{
	const char *state = command_text(s, "state");
	char since[16], seen[16];

	text_age(command_number(s, "since_ms") * 1000, since);
	text_age(command_number(s, "answered_ms_ago") * 1000, seen);
	printf("cluster    %s\n", command_text(s, "cluster_id"));
	printf("this node  %s, number %" PRIu64 ", at %s\n", command_text(s, "name"),
	       command_number(s, "node"), command_text(s, "address"));
	printf("state      %s for %s, epoch %" PRIu64 "\n", state, since,
	       command_number(s, "epoch"));
	if (json_object_get(s, "rewound_s_ago")) {
		text_age(command_number(s, "rewound_s_ago") * 1000000, seen);
		printf("rewound    the database was set back: noticed %s ago, and told again what "
		       "it had lost\n",
		       seen);
		text_age(command_number(s, "answered_ms_ago") * 1000, seen);
	}
	if (json_object_get(s, "answered_ms_ago"))
		printf("beats      %" PRIu64 ", the last answered %s ago, in %" PRIu64 " us\n",
		       command_number(s, "beats"), seen, command_number(s, "round_trip_us"));
	printf("nodes      %" PRIu64 "\n", command_number(s, "nodes"));
	print_objects(json_object_get(s, "objects"));
}

static void print_nodes(const json_t *s)
{
	const json_t *node, *problem;
	size_t i;

	json_array_foreach(json_object_get(s, "directory"), i, node)
	{
		printf("%s%-9s %s\n", i == 0 ? "\nnode       state\n" : "",
		       command_text(node, "name"), command_text(node, "state"));
		problem = json_object_get(node, "problem");
		print_problem(problem);
	}
	problem = json_object_get(s, "authority_problem");
	if (problem)
		printf("\n");
	print_problem(problem);
}

static int status(struct command *c, struct err *err)
{
	auto_json json_t *reply = NULL;
	int r = ask(c, "status", &reply, err);

	if (r < 0)
		return r;
	if (r == 0 && strcmp(command_text(reply, "state"), "none") != 0)
		print_status(reply);
	if (r == 0)
		print_problem(json_object_get(reply, "problem"));
	if (r == 0)
		print_nodes(reply);
	return strcmp(command_text(reply, "state"), "held") == 0 ? 0 : 1;
}

static int map(struct command *c, struct err *err)
{
	auto_json json_t *reply = NULL;
	const json_t *row;
	size_t i;
	int r = ask(c, "map", &reply, err);

	if (r != 0)
		return MIN(r, 0);
	json_array_foreach(json_object_get(reply, "map"), i, row)
	{
		printf("%s %s\n", command_text(row, "tag"), command_text(row, "node"));
	}
	return 0;
}

static const struct subcommand subcommands[] = {
	{"status", status, "[OPTIONS]",
         "Shows the state of this node and of the others, and what to do about each problem.\nA "
         "node is held (all is well), fenced (the database has not answered for too long), out "
         "(it has to join again) or lost.\nExits with 0 if this node is held, else with 1.",
         "  cloche cluster status\n"
         "  cloche cluster status --json | jq -r .problem.code",
         .n_opts = 1},
	{"init", init, "[OPTIONS] --owner CONNINFO",
         "Makes a cluster in an empty PostgreSQL database, 15 or later, with this node as its "
         "first.\nThe owner's login makes a schema and three roles, and is not kept. Members log "
         "in "
         "with a role that may call the cluster's\nfunctions, and nothing else. This node gets "
         "the key of the cluster's authority.",
         "  cloche cluster init --owner 'host=db.example dbname=cloche user=postgres'",
         .n_opts = 7},
	{"invite", invite, "[OPTIONS]",
         "Prints a token with which one other machine can join, once, within an hour.\nCall it on "
         "the node that made the cluster, and keep cloche running there until the other one has "
         "joined: it signs its certificate.",
         "  cloche cluster invite\n"
         "  cloche cluster invite --lifetime 10m",
         .first_opt = 7, .n_opts = 2},
	{"map", map, "[OPTIONS]",
         "Prints a map file for HAProxy: the four letters with which the ids of each node begin, "
         "and the node. With it calls\ngo to the right node at once. It changes when nodes "
         "come or go.",
         "  cloche cluster map > /etc/haproxy/cloche.map", .n_opts = 1},
	{"migrate", migrate, "[OPTIONS] --owner CONNINFO",
         "Upgrades the schema of the cluster's database to this version of cloche, and grants the "
         "members' rights again.\nDo it before you upgrade the nodes: older nodes go "
         "on.",
         "  cloche cluster migrate --owner 'host=db.example dbname=cloche user=postgres'",
         .n_opts = 2},
};

static const struct group group = {
	.name = "cluster",
	.about = "Makes several machines one. They share a PostgreSQL database, which the setting "
		 "`postgres` under [cluster] names on each of them.\nFor root, on the machine "
		 "itself.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
	.usual = &subcommands[0],
	.is_offline = true,
};

int cmd_cluster(int argc, char **argv)
{
	struct cluster_opts o = {
		.lifetime_ms = HOUR_MS, .fence_after_ms = 6000, .lost_after_ms = 300000};
	const struct opt rows[] = {
		{0, "config", OPT_TEXT, &o.config, "FILE",
	         "the daemon's settings file (default /etc/cloche/cloche.toml)"},
		{0, "owner", OPT_TEXT, &o.owner, "CONNINFO",
	         "who may make schemas and roles there, as libpq takes it"},
		{0, "name", OPT_TEXT, &o.name, "NAME", "of this node (default: the host's)"},
		{0, "address", OPT_TEXT, &o.address, "HOST:PORT",
	         "where other nodes reach this one (default: the setting `address`)"},
		{0, "fence-after", OPT_MS, &o.fence_after_ms, "TIME",
	         "how long a node keeps its right without an answer, 1s to 60s (default 6s)"},
		{0, "lost-after", OPT_MS, &o.lost_after_ms, "TIME",
	         "after how long a silent node has lost what it had (default 5m)"},
		{0, "replace", OPT_FLAG, &o.is_replacing, NULL,
	         "leave the cluster that this node is in"},
		{0, "lifetime", OPT_MS, &o.lifetime_ms, "TIME",
	         "how long the token is good (default 1h, at most 7d)"},
		{0, "config", OPT_TEXT, &o.config, "FILE",
	         "the daemon's settings file (default /etc/cloche/cloche.toml)"},
	};

	return group_main(&group, rows, &o, argc, argv);
}
