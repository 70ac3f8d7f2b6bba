// SPDX-License-Identifier: Apache-2.0
/* `cloche-cluster`: all of cloche that speaks with PostgreSQL. It is started by `cloche` alone. */
#include "member/order/order.h"

#include "base/fd.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ORDER_MAX 65536

static const struct {
	const char *command;
	order_fn fn;
} orders[] = {
	{"init", order_init},     {"migrate", order_migrate}, {"invite", order_invite},
	{"join", order_join},     {"nodes", order_nodes},     {"status", order_status},
	{"map", order_map},       {"cordon", order_cordon},   {"uncordon", order_uncordon},
	{"remove", order_remove},
};

static int print(json_t *answer, const struct err *err)
{
	auto_json json_t *all =
		answer ? json_pack("{so}", "answer", answer)
		       : json_pack("{s{ss ss ss ss}}", "error", "code", err_code_name(err->code),
	                           "message", err->message, "hint", err->hint, "field", err->field);
	int r = json_dumpf(all, stdout, JSON_COMPACT);

	return r == 0 && fflush(stdout) == 0 && answer ? 0 : 1;
}

static int read_order(json_t **ret, struct err *err)
{
	struct buf text = BUF_INIT(ORDER_MAX);
	int r = buf_append_file(&text, "/dev/stdin");

	if (r < 0)
		r = err_set(err, ERR_BAD_REQUEST, -r, "cannot read the order on stdin");
	else
		r = json_parse(buf_str(&text), text.len, ret, err);
	buf_done(&text);
	return r;
}

int main(int argc, char **argv)
{
	auto_json json_t *all = NULL;
	struct order order = {.lifetime_s = 3600};
	json_t *answer = NULL;
	struct err err = {0};
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return puts("cloche-cluster " CLOCHE_VERSION) < 0;
	r = read_order(&all, &err);
	if (r == 0)
		r = order_parse(all, &order, &err);
	if (r == 0 && strcmp(order.command, "member") == 0)
		return order_member(&order);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(orders); i++)
		if (strcmp(order.command, orders[i].command) == 0) {
			r = orders[i].fn(&order, &answer, &err);
			return print(r < 0 ? NULL : answer, &err);
		}
	if (r == 0)
		(void)err_field(&err, "command", "there is no '%.40s'", order.command);
	return print(NULL, &err);
}
