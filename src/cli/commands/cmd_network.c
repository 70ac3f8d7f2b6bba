// SPDX-License-Identifier: Apache-2.0
/* What a sandbox may reach: shown, changed while it runs, explained, and suggested. */
#include "base/parse.h"
#include "cli/commands/network_log.h"
#include "cli/session/spec.h"

#include <stdio.h>
#include <string.h>

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
		               "say deny-all, allow-all, a JSON file, or --allow");
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
			return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is no port", c->words[2]);
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
	const char *closed = command_text(reply, "closed");

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
	r = remote_call(c->remote, "POST", path, body, &reply, err);
	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(reply);
	else
		print_explanation(reply);
	return 0;
}

int cmd_network(int argc, char **argv)
{
	struct network_opts opts = {0};
	const struct opt set_rows[] = {
		{0, "allow", OPT_LIST, &opts.allow, "NAME",
	         "let it reach this name or range, and nothing else; may be repeated"},
	};
	const struct opt explain_rows[] = {
		{'X', "method", OPT_TEXT, &opts.method, "METHOD", "of a request (default GET)"},
	};
	const struct manual manuals[] = {
		{
			.name = "network",
			.synopsis = "[show] SANDBOX\nset SANDBOX POLICY\nset SANDBOX --allow "
				    "NAME…\nallow SANDBOX HOST [PORT]\nexplain SANDBOX "
				    "URL\ndecisions SANDBOX\nsuggest SANDBOX",
			.about =
				"Shows what a sandbox may reach. 'set' changes it while it runs, "
				"'allow' adds one host;\n'explain' says which rule decides about a "
				"URL; 'decisions' lists what was let through\nand what not; "
				"'suggest' prints the smallest policy that would have sufficed.",
			.examples = "  cloche network box\n"
				    "  cloche network set box --allow api.example.com\n"
				    "  cloche network explain box https://api.example.com/simple/",
			.min_words = 1,
			.max_words = 1,
		},
		{
			.name = "network set",
			.synopsis = "SANDBOX POLICY\nSANDBOX --allow NAME…",
			.about = "Changes what a sandbox may reach, as a whole. POLICY is "
				 "deny-all, allow-all or a JSON file.\nConnections that the new "
				 "one forbids are cut before this returns.",
			.examples = "  cloche network set box deny-all\n"
				    "  cloche network set box --allow api.example.com --allow "
				    "'*.example.org'",
			.min_words = 1,
			.max_words = 2,
			.opts = set_rows,
			.n_opts = ARRAY_SIZE(set_rows),
		},
		{
			.name = "network allow",
			.synopsis = "SANDBOX HOST [PORT]",
			.about = "Lets a sandbox reach one host more, a name or a range. What its "
				 "policy has stays as it is:\nthe new rule stands behind all "
				 "others.",
			.examples = "  cloche network allow box api.example.com 443",
			.min_words = 2,
			.max_words = 3,
		},
		{
			.name = "network explain",
			.synopsis = "SANDBOX URL",
			.about = "Says whether a sandbox may reach a URL, by which rule, and how "
				 "strongly that is enforced.",
			.examples = "  cloche network explain box https://api.example.com/simple/",
			.min_words = 2,
			.max_words = 2,
			.opts = explain_rows,
			.n_opts = ARRAY_SIZE(explain_rows),
		},
		{
			.name = "network decisions",
			.synopsis = "SANDBOX",
			.about = "Lists what the network wall decided about a sandbox, the oldest "
				 "first.",
			.examples = "  cloche network decisions box",
			.min_words = 1,
			.max_words = 1,
		},
		{
			.name = "network suggest",
			.synopsis = "SANDBOX",
			.about = "Prints the smallest policy that would have sufficed for all "
				 "that the sandbox has reached\nwhile its policy had \"mode\": "
				 "\"record\". It can be given to 'set' and to --network.",
			.examples = "  cloche network suggest box > policy.json\n"
				    "  cloche network set box policy.json",
			.min_words = 1,
			.max_words = 1,
		},
	};
	static const struct {
		const char *word;
		command_fn fn;
	} verbs[ARRAY_SIZE(manuals)] = {
		{"show", show},
		{"set", set},
		{"allow", allow},
		{"explain", explain},
		{"decisions", network_decisions},
		{"suggest", network_suggest},
	};
	int status = -1;

	for (size_t i = 0; status < 0 && argc > 1 && i < ARRAY_SIZE(verbs); i++)
		if (strcmp(argv[1], verbs[i].word) == 0)
			status = command_main(&manuals[i], argc - 1, argv + 1, verbs[i].fn, &opts);
	if (status < 0)
		status = command_main(&manuals[0], argc, argv, show, &opts);
	opt_list_done(&opts.allow);
	return status;
}
