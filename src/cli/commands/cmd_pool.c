// SPDX-License-Identifier: Apache-2.0
/* Sandboxes that are made ahead because somebody has said that their creates will come. */
#include "cli/frame/group.h"
#include "cli/session/packages.h"
#include "cli/session/spec.h"

#include <stdio.h>

static struct {
	uint64_t count, for_ms;
	struct sandbox_opts sandbox;
} opts;

static const struct opt rows[] = {
	{0, "count", OPT_NUMBER, &opts.count, "N", "how many creates will come"},
	{0, "for", OPT_MS, &opts.for_ms, "TIME",
         "how long to keep them; those that nobody has used then are removed (default 10m)"},
	SANDBOX_OPT_ROWS(opts.sandbox),
};

static int reserve(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("pool");
	auto_json json_t *body = NULL, *reply = NULL;
	int r;

	if (opts.count == 0) {
		(void)err_set(err, ERR_BAD_REQUEST, 0, "--count is missing");
		return err_hint(err, "say how many creates will come: --count 64");
	}
	r = sandbox_opts_to_json(&opts.sandbox, 0, &body, err);
	if (r == 0)
		r = packages_prepare(c->remote, body, err);
	if (r < 0)
		return r;
	(void)json_object_set_new(body, "count", json_integer((json_int_t)opts.count));
	if (opts.for_ms > 0)
		(void)json_object_set_new(body, "duration_ms",
		                          json_integer((json_int_t)opts.for_ms));
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r == 0)
		command_print_reply(c, reply, "id");
	return r;
}

static const struct column columns[] = {
	{"ID", "id"},
	{"TEMPLATE", "template"},
	{"ENGINE", "engine"},
	{"LEFT", "left", cell_number},
	{"READY", "ready", cell_number},
	{"TARGET", "target", cell_number},
	{"LIMITED BY", "limited_by"},
	{"AGE", "created_us", cell_age},
};
static const struct resource reservations = {.plural = "pool",
                                             .list = "reservations",
                                             .columns = columns,
                                             .n_columns = ARRAY_SIZE(columns),
                                             .printed = "id"};

static const struct column waiting_columns[] = {
	{"PLACE", "position", cell_number},
	{"REQUEST", "request_id"},
	{"BATCH", "batch_id"},
	{"WHY", "why"},
	{"WAITED (ms)", "waited_ms", cell_number},
	{"LEFT (ms)", "left_ms", cell_number},
};
static const struct resource waiting = {
	.plural = "creates", .columns = waiting_columns, .n_columns = ARRAY_SIZE(waiting_columns)};

static const struct subcommand subcommands[] = {
	{"reserve", reserve, "[OPTIONS]",
         "Has sandboxes made ahead for creates that will come soon, and prints the reservation's "
         "id. Give the options that the creates will have. Only creates of this project get "
         "them.",
         "  cloche pool reserve --count 256 --template python --memory 1g --for 15m\n"
         "  cloche pool ls                    # how many are ready\n"
         "  cloche create --count 256 --template python --memory 1g --wait 10m",
         .n_opts = ARRAY_SIZE(rows)},
	{"ls", resource_ls, "[OPTIONS]",
         "Lists the project's reservations, and how many sandboxes of each are ready.",
         "  cloche pool ls", .resource = &reservations},
	{"waiting", resource_ls, "[OPTIONS]",
         "Lists the project's creates that wait for room (--wait), in their order.",
         "  cloche pool waiting", .resource = &waiting},
	{"inspect", resource_inspect, "[OPTIONS] RESERVATION",
         "Shows all that is known of a reservation.", "  cloche pool inspect $id", .n_words = 1,
         .resource = &reservations},
	{"rm", resource_rm, "[OPTIONS] RESERVATION",
         "Ends a reservation, with those of its sandboxes that nobody has taken.",
         "  cloche pool rm $id", .n_words = 1, .resource = &reservations},
};

static const struct group group = {
	.name = "pool",
	.about = "Sandboxes that are made ahead, before many creates of one kind.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
};

int cmd_pool(int argc, char **argv)
{
	int status = group_main(&group, rows, &opts, argc, argv);

	sandbox_opts_done(&opts.sandbox);
	return status;
}
