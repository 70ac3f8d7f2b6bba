// SPDX-License-Identifier: Apache-2.0
/* What a project or key may use: shown beside what it uses, and set as a whole. */
#include "base/clock.h"
#include "base/parse.h"
#include "cli/frame/group.h"
#include "cli/term/text.h"
#include "engine/limits.h"

#include <stdio.h>
#include <string.h>

#define MAX_LIMITS                       "max_limits."
#define LIMIT_NAME(a, member, name, ...) " " #name
#define LIMIT_NAMES                      GUEST_LIMITS(LIMIT_NAME, ) EXEC_LIMITS(LIMIT_NAME, )

struct quota_opts {
	const char *project, *key;
};

static char *value_text(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	if (json_is_string(value))
		return xstrdup(json_string_value(value));
	return json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
}

static void add_ceiling(struct table *t, const char *prefix, const json_t *object, const char *name)
{
	auto_free char *what = xasprintf("%s%s", prefix, name);
	auto_free char *limit = value_text(object, name);

	table_add(t, what);
	table_add(t, "");
	table_add(t, limit);
	for (size_t i = 3; i < t->n_columns; i++)
		table_add(t, "");
}

/* Those of a single sandbox that were set. */
static void print_ceilings(const json_t *quota, struct table *t)
{
	json_t *limits = json_object_get(quota, "max_limits");
	const char *name;
	json_t *value;

	json_object_foreach (limits, name, value)
		if (!json_is_null(value))
			add_ceiling(t, MAX_LIMITS, limits, name);
	if (json_is_integer(json_object_get(quota, "max_timeout_ms")))
		add_ceiling(t, "", quota, "max_timeout_ms");
	if (json_is_integer(json_object_get(quota, "weight")))
		add_ceiling(t, "", quota, "weight");
	if (json_is_integer(json_object_get(quota, "events_age_ms")))
		add_ceiling(t, "", quota, "events_age_ms");
}

/* What all nodes use, as far as this one was told; "": it was not. */
static char *cluster_text(const json_t *quota, const char *name, const char *field)
{
	const json_t *part = json_object_get(json_object_get(quota, "cluster"), name);

	return part ? value_text(part, field) : xstrdup("");
}

/* How old what is told of the other nodes is. */
static void print_age(const json_t *quota)
{
	json_t *all = json_object_get(quota, "cluster");
	json_int_t oldest_us = INT64_MAX;
	const char *name;
	json_t *part;

	json_object_foreach (all, name, part)
		oldest_us = MIN(oldest_us, json_integer_value(json_object_get(part, "as_of_us")));
	if (json_object_size(all) > 0)
		printf("CLUSTER is what all nodes use, RESERVED what they may use without asking; "
		       "as of %.1f s ago\n",
		       (double)MAX((json_int_t)clock_wall_us() - oldest_us, 0) / 1e6);
	else if (json_is_object(all))
		printf("what the other nodes use is not known yet\n");
}

static void print_quota(const json_t *quota)
{
	static const char *const heads[] = {"WHAT", "USED", "LIMIT", "CLUSTER", "RESERVED"};
	const bool is_in_cluster = json_object_size(json_object_get(quota, "cluster")) > 0;
	struct table t = {.heads = heads, .n_columns = is_in_cluster ? 5 : 3};
	json_t *limits = json_object_get(quota, "limits");
	const json_t *current = json_object_get(quota, "current");
	auto_free char *owner =
		text_escaped(*command_text(quota, "key_id") ? command_text(quota, "key_id")
	                                                    : command_text(quota, "project_id"));
	const char *name;
	json_t *value;

	printf("%s %s, money in %s since %s\n", *command_text(quota, "key_id") ? "key" : "project",
	       owner, command_text(quota, "currency"), command_text(quota, "month"));
	json_object_foreach (limits, name, value) {
		auto_free char *used = value_text(current, name);
		auto_free char *limit = value_text(limits, name);

		table_add(&t, name);
		table_add(&t, used);
		table_add(&t, limit);
		if (is_in_cluster) {
			auto_free char *all = cluster_text(quota, name, "used");
			auto_free char *reserved = cluster_text(quota, name, "reserved");

			table_add(&t, all);
			table_add(&t, reserved);
		}
	}
	print_ceilings(quota, &t);
	table_print(&t);
	table_done(&t);
	print_age(quota);
}

static char *quota_path(const struct quota_opts *opts)
{
	char *path;

	if (!opts->key)
		return remote_path("projects", opts->project ? opts->project : "default", "quota");
	path = remote_path("keys", opts->key, "quota");
	return opts->project ? remote_query(path, "project", opts->project) : path;
}

static void show_reply(const struct command *c, const json_t *reply)
{
	if (c->common.json)
		command_print_json(reply);
	else
		print_quota(reply);
}

static int show_own(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("quota");
	auto_json json_t *reply = NULL;
	int r = command_ask(c, "GET", path, NULL, &reply, err);

	if (r != 0)
		return MIN(r, 0);
	print_quota(json_object_get(reply, "project"));
	if (json_is_object(json_object_get(reply, "key"))) {
		printf("\n");
		print_quota(json_object_get(reply, "key"));
	}
	return 0;
}

static int show(struct command *c, struct err *err)
{
	const struct quota_opts *opts = c->arg;
	auto_free char *path = quota_path(opts);
	auto_json json_t *reply = NULL;
	int r;

	if (!opts->project && !opts->key)
		return show_own(c, err);
	r = remote_call(c->remote, "GET", path, NULL, &reply, err);
	if (r == 0)
		show_reply(c, reply);
	return r;
}

/* What is no number goes as it is: the daemon says what it wants to have there. */
static json_t *read_value(const char *name, const char *text)
{
	bool is_vcpus = strcmp(name, "vcpus") == 0 || strcmp(name, MAX_LIMITS "vcpus") == 0;
	uint64_t whole;
	double decimal;

	if (strcmp(name, "budget") != 0 && parse_u64(text, INT64_MAX, &whole) == 0)
		return json_integer((json_int_t)whole);
	if (is_vcpus && opts_parse_decimal(text, &decimal) == 0)
		return json_real(decimal);
	return json_string(text);
}

/* "max_limits.pids" is a field of the object "max_limits". */
static void put_value(json_t *body, const char *name, json_t *value)
{
	json_t *inner = json_object_get(body, "max_limits");

	if (strncmp(name, MAX_LIMITS, strlen(MAX_LIMITS)) != 0) {
		(void)json_object_set_new(body, name, value);
		return;
	}
	if (!inner) {
		inner = json_object();
		(void)json_object_set_new(body, "max_limits", inner);
	}
	(void)json_object_set_new(inner, name + strlen(MAX_LIMITS), value);
}

static int set(struct command *c, struct err *err)
{
	auto_free char *path = quota_path(c->arg);
	auto_json json_t *body = json_object(), *reply = NULL;
	int r;

	for (size_t i = 0; i < c->n_words; i++) {
		char *equals = strchr(c->words[i], '=');

		if (!equals || equals == c->words[i])
			return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is not LIMIT=VALUE",
			               c->words[i]);
		*equals = '\0';
		put_value(body, c->words[i], read_value(c->words[i], equals + 1));
	}
	r = remote_call(c->remote, "PUT", path, body, &reply, err);
	if (r == 0)
		show_reply(c, reply);
	return r;
}

static const struct subcommand subcommands[] = {
	{"show", show, "[OPTIONS]",
         "Shows what your project and key may use at once, create in a minute and spend in a "
         "month, and\n"
         "what they use now.",
         "  cloche quota show --project blue", .n_opts = 2},
	{"set", set, "[OPTIONS] LIMIT=VALUE…",
         "Sets the limits of a project (without --project: of default) or of a key. Limits that\n"
         "are not named get the daemon's default again. Limits: sandboxes, vcpus, memory_mib,\n"
         "disk_mib, creates_per_minute, budget (money per month); of a single sandbox:\n"
         "max_timeout_ms, and max_limits.NAME, where NAME is one of\n" LIMIT_NAMES ".\n"
         "A value is a number or 'unlimited'. What is already in use stays. weight is a project's\n"
         "share of the daemon while several want something: 100 is usual, 200 gets twice as much.\n"
         "events_age_ms is how long a project's events and audit log are kept.",
         "  cloche quota set --project blue sandboxes=10 vcpus=8 budget=25.00\n"
         "  cloche quota set --project blue max_limits.memory_mib=2048\n"
         "  cloche quota set --key key_k3v9… creates_per_minute=30\n"
         "  cloche quota set --project blue sandboxes=0   # nothing new",
         .n_words = 1, .n_more = WORDS_MAX - 1, .n_opts = 2},
};

static const struct group group = {
	.name = "quota",
	.about = "Quotas: what a project and a key may use.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
	.usual = &subcommands[0],
};

int cmd_quota(int argc, char **argv)
{
	struct quota_opts opts = {0};
	const struct opt rows[] = {
		{0, "project", OPT_TEXT, &opts.project, "NAME",
	         "of this project; only for admins of the project default"},
		{0, "key", OPT_TEXT, &opts.key, "KEY_ID", "of this key (cloche key ls)"},
	};

	return group_main(&group, rows, &opts, argc, argv);
}
