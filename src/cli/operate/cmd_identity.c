// SPDX-License-Identifier: Apache-2.0
/* The issuer of sandboxes' tokens, and the keys that sign them. */
#include "cli/frame/group.h"
#include "cli/term/text.h"

#include <stdio.h>

struct identity_opts {
	bool is_revoking;
};

static const struct column columns[] = {
	{"KEY", "id"},
	{"STATE", "state"},
	{"MADE", "created_us", cell_age},
	{"SIGNS SINCE", "active_us", cell_age},
	{"RETIRED", "retired_us", cell_age},
};

static void print_keys(const json_t *keys)
{
	const char *heads[ARRAY_SIZE(columns)];
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(columns)};
	const json_t *key;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(columns); i++)
		heads[i] = columns[i].head;
	json_array_foreach(keys, i, key)
	{
		for (size_t k = 0; k < ARRAY_SIZE(columns); k++) {
			const struct column *c = &columns[k];
			auto_free char *cell = c->cell ? c->cell(key, c->field)
			                               : xstrdup(command_text(key, c->field));

			table_add(&t, cell);
		}
	}
	table_print(&t);
	table_done(&t);
}

static int print_status(struct command *c, const char *method, const char *path, const json_t *body,
                        struct err *err)
{
	auto_json json_t *reply = NULL;
	auto_free char *issuer = NULL;
	const json_t *audiences;
	int r = command_ask(c, method, path, body, &reply, err);

	if (r != 0)
		return MIN(r, 0);
	issuer = text_escaped(command_text(reply, "issuer"));
	audiences = json_object_get(reply, "audiences");
	printf("issuer     %s\n", issuer);
	printf("tokens     good for %u s\n", (unsigned)(command_number(reply, "token_ms") / 1000));
	printf("audiences  ");
	for (size_t i = 0; i < json_array_size(audiences); i++)
		printf("%s%s", i > 0 ? ", " : "", json_string_value(json_array_get(audiences, i)));
	printf("%s\n\n", json_is_array(audiences) ? "" : "any that a policy names");
	print_keys(json_object_get(reply, "keys"));
	return 0;
}

static int show(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("identity");

	return print_status(c, "GET", path, NULL, err);
}

static int rotate(struct command *c, struct err *err)
{
	const struct identity_opts *opts = c->arg;
	auto_free char *path = remote_path("identity", "rotate");
	auto_json json_t *body = json_pack("{s:b}", "revoke", opts->is_revoking);

	return print_status(c, "POST", path, body, err);
}

static int token(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "identity-token");
	auto_json json_t *body = json_pack("{s:s}", "audience", c->words[1]);
	auto_json json_t *reply = NULL;
	int r = body ? remote_call(c->remote, "POST", path, body, &reply, err)
	             : err_field(err, "audience", "must be text");

	if (r == 0)
		command_print_reply(c, reply, "token");
	return r;
}

static const struct subcommand subcommands[] = {
	{"show", show, "[OPTIONS]",
         "Shows the issuer of sandboxes' tokens, and the keys that sign them: the current one, the "
         "next, and old ones whose tokens may still be valid.",
         "  cloche identity show\n"
         "  cloche identity   # the same"},
	{"rotate", rotate, "[OPTIONS]",
         "Switches to the next signing key. Existing tokens stay valid until they expire, unless "
         "--revoke withdraws their keys.",
         "  cloche identity rotate\n"
         "  cloche identity rotate --revoke   # a key may be known to others",
         .n_opts = 1},
	{"token", token, "[OPTIONS] SANDBOX AUDIENCE",
         "Prints a token that says to the audience what the sandbox is. Its network policy must "
         "name the audience.",
         "  cloche identity token build sts.amazonaws.com", .n_words = 2},
};

static const struct group group = {
	.name = "identity",
	.about = "Identities of sandboxes: short tokens that clouds trust without a stored key. A "
		 "policy names the audiences that a token may be for: {\"identity\": "
		 "{\"audiences\": […]}}.",
	.subcommands = subcommands,
	.n_subcommands = ARRAY_SIZE(subcommands),
	.usual = &subcommands[0],
};

int cmd_identity(int argc, char **argv)
{
	struct identity_opts opts = {0};
	const struct opt rows[] = {
		{0, "revoke", OPT_FLAG, &opts.is_revoking, NULL,
	         "remove all keys so far: no token of theirs verifies any more"},
	};

	return group_main(&group, rows, &opts, argc, argv);
}
