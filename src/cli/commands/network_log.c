// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/network_log.h"

#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_row(struct table *t, const json_t *d)
{
	bool is_dns = strcmp(command_text(d, "kind"), "dns") == 0;
	const char *name = command_text(d, "name"), *protocol = command_text(d, "protocol");
	auto_free char *port = xasprintf("%" PRIu64, command_number(d, "port"));
	auto_free char *rule = json_dumps(json_object_get(d, "rule"), JSON_ENCODE_ANY);
	char bytes[16];

	text_bytes(command_number(d, "in_bytes") + command_number(d, "out_bytes"), bytes);
	table_add(t, command_text(d, "verdict"));
	table_add(t, is_dns ? "dns" : *protocol ? protocol : "tcp");
	table_add(t, *name ? name : command_text(d, "address"));
	table_add(t, is_dns ? NULL : port);
	table_add(t, json_is_integer(json_object_get(d, "rule")) ? rule : NULL);
	table_add(t, is_dns ? NULL : bytes);
	table_add(t, command_text(d, "reason"));
}

int network_decisions(struct command *c, struct err *err)
{
	static const char *const heads[] = {"VERDICT", "WHAT",  "TO",    "PORT",
	                                    "RULE",    "BYTES", "REASON"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	auto_free char *path = remote_query(
		remote_path("sandboxes", c->words[0], "network", "decisions"), "limit", "1000");
	auto_json json_t *decisions = json_array();
	const json_t *d;
	size_t i;
	int r = remote_list(c->remote, path, "decisions", decisions, err);

	if (r < 0)
		return r;
	if (c->common.json) {
		command_print_json(decisions);
		return 0;
	}
	json_array_foreach(decisions, i, d)
	{
		add_row(&t, d);
	}
	table_print(&t);
	table_done(&t);
	return 0;
}

int network_suggest(struct command *c, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", c->words[0], "network", "suggestion");
	auto_json json_t *reply = NULL;
	auto_free char *policy = NULL;
	int r = command_ask(c, "GET", path, NULL, &reply, err);

	if (r != 0)
		return MIN(r, 0);
	policy = json_dumps(json_object_get(reply, "policy"), JSON_INDENT(2));
	printf("%s\n", policy ? policy : "");
	(void)fflush(stdout);
	if (!json_is_true(json_object_get(reply, "complete")))
		(void)fprintf(stderr, "Not all that it has reached is known any more.\n");
	return 0;
}
