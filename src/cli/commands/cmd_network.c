// SPDX-License-Identifier: Apache-2.0
/* What a sandbox may reach: shown, changed while it runs, explained, and suggested. */
#include "base/parse.h"
#include "cli/commands/network_log.h"
#include "cli/frame/group.h"
#include "cli/session/spec.h"

#include <stdio.h>

struct network_opts {
	const char *method;
	struct opt_list allow;
};

static void print_network(const struct command *c, const json_t *reply)
{
	auto_free char *policy = NULL;

	if (c->common.json) {
		command_print_json(reply);
		return;
	}
	policy = json_dumps(json_object_get(reply, "policy"), JSON_INDENT(2) | JSON_ENCODE_ANY);
	printf("%s%s\n%s\n", command_text(reply, "kind"),
	       json_is_true(json_object_get(reply, "in_force")) ? "" : " (not in force yet)",
	       policy ? policy : "");
}

static int show(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "network");
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", path, NULL, &reply, err);

	if (r == 0)
		print_network(c, reply);
	return r;
}

static int set(struct command *c, struct err *err)
{
	const struct network_opts *opts = c->arg;
	auto_free char *path = remote_path("sandboxes", c->words[0], "network");
	auto_json json_t *body = NULL, *reply = NULL;
	json_t *policy = NULL;
	int r = network_to_json(c->n_words > 1 ? c->words[1] : NULL, &opts->allow, &policy, err);

	if (r < 0)
		return r;
	if (!policy)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "give deny-all, allow-all, a JSON file, or --allow");
	body = json_pack("{s:o}", "policy", policy);
	r = remote_call(c->remote, "PUT", path, body, &reply, err);
	if (r == 0)
		print_network(c, reply);
	return r;
}

static int allow(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "network", "allow");
	auto_json json_t *body = json_pack("{s:s}", "host", c->words[1]), *reply = NULL;
	uint64_t port;
	int r;

	if (!body)
		return err_set(err, ERR_INVALID_FIELD, 0, "the host is not valid UTF-8");
	if (c->n_words > 2) {
		r = parse_u64(c->words[2], UINT16_MAX, &port);
		if (r < 0 || port == 0)
			return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is not a port",
			               c->words[2]);
		(void)json_object_set_new(body, "port", json_integer((json_int_t)port));
	}
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r == 0)
		print_network(c, reply);
	return r;
}

static void print_explanation(const json_t *reply)
{
	const json_t *rule = json_object_get(reply, "rule");
	const char *closed = command_text(reply, "closed"), *member = command_text(reply, "member");

	if (*member) {
		printf("allowed: it is a member of the group (%s)\n", member);
		return;
	}
	printf("%s", json_is_true(json_object_get(reply, "allowed")) ? "allowed" : "denied");
	if (json_is_integer(rule))
		printf(", by rule %" JSON_INTEGER_FORMAT, json_integer_value(rule));
	else
		printf(", by no rule");
	printf(" (%s)", command_text(reply, "strength"));
	if (*closed)
		printf("; its address is closed: %s", closed);
	if (json_is_true(json_object_get(reply, "depends_on_address")))
		printf("; if the name leads to an address that is not closed");
	printf("\n");
}

static int explain(struct command *c, struct err *err)
{
	const struct network_opts *opts = c->arg;
	auto_free char *path = remote_path("sandboxes", c->words[0], "network", "explain");
	auto_json json_t *body = json_pack("{s:s}", "url", c->words[1]), *reply = NULL;
	int r;

	if (!body)
		return err_set(err, ERR_INVALID_FIELD, 0, "the URL is not valid UTF-8");
	if (opts->method)
		(void)json_object_set_new(body, "method", json_string(opts->method));
	r = command_ask(c, "POST", path, body, &reply, err);
	if (r == 0)
		print_explanation(reply);
	return MIN(r, 0);
}

static const struct subcommand subcommands[] = {
	{"show", show, "[OPTIONS] SANDBOX", "Shows what a sandbox may reach.",
         "  cloche network show box", .n_words = 1},
	{"set", set, "SANDBOX POLICY\nSANDBOX --allow NAME…",
         "Replaces what a sandbox may reach. POLICY is deny-all, allow-all or a JSON file. "
         "Connections that the\n"
         "new policy forbids are cut before this returns.",
         "  cloche network set box deny-all\n"
         "  cloche network set box --allow api.example.com --allow '*.example.org'",
         .n_words = 1, .n_more = 1, .n_opts = 1},
	{"allow", allow, "SANDBOX HOST [PORT]",
         "Lets a sandbox reach one more host, which is a name or a range. The rules that it has "
         "stay: the new one\n"
         "comes after them.",
         "  cloche network allow box api.example.com 443\n"
         "  cloche network allow box pip     # also npm and apt: where packages come from",
         .n_words = 2, .n_more = 1},
	{"explain", explain, "SANDBOX URL",
         "Says whether a sandbox may reach a URL, by which rule, and how strongly that is "
         "enforced.",
         "  cloche network explain box https://api.example.com/simple/", .n_words = 2,
         .first_opt = 1, .n_opts = 1},
	{"decisions", network_decisions, "SANDBOX",
         "Lists what the network wall decided about a sandbox, the oldest first.",
         "  cloche network decisions box", .n_words = 1},
	{"suggest", network_suggest, "SANDBOX",
         "Prints the smallest policy that allows all that the sandbox has reached while its policy "
         "had \"mode\":\n"
         "\"record\". It can be given to 'set' and to --network.",
         "  cloche network suggest box > policy.json\n"
         "  cloche network set box policy.json",
         .n_words = 1},
};

static const struct group group = {
	.name = "network",
	.about = "What a sandbox may reach: shown, changed while it runs, explained.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
	.usual = &subcommands[0],
};

int cmd_network(int argc, char **argv)
{
	struct network_opts opts = {0};
	const struct opt rows[] = {
		{0, "allow", OPT_LIST, &opts.allow, "NAME",
	         "let it reach this name or range (pip, npm or apt: the hosts of their packages), "
	         "and nothing else; may be repeated"},
		{'X', "method", OPT_TEXT, &opts.method, "METHOD", "of a request (default GET)"},
	};
	int status = group_main(&group, rows, &opts, argc, argv);

	opt_list_done(&opts.allow);
	return status;
}
