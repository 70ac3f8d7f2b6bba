// SPDX-License-Identifier: Apache-2.0
/*
 * What operators do with nodes. A node may say of itself that it takes no new sandboxes. About
 * another one only the database's owner may say so, and only the owner removes one: else a single
 * hostile node could put all others out.
 */
#include "member/order/order_parts.h"

#include <stdio.h>
#include <string.h>

static int cordon_self(const struct order *o, const char *is_cordoned, json_t **ret,
                       struct err *err)
{
	auto_call(PQclearp) PGresult *rows = NULL;
	struct node_file f = {0};
	struct session s = {0};
	char node[16];
	int r = order_open(o, &f, &s, err);

	if (r == 0 && o->node && strcmp(o->node, f.name) != 0) {
		(void)err_field(err, "owner", "is needed for another node than this one, '%s'",
		                f.name);
		r = err_hint(err,
		             "run it on '%.63s' itself, or give --owner CONNINFO: no node may "
		             "put out another",
		             o->node);
	}
	(void)snprintf(node, sizeof(node), "%u", f.node);
	if (r == 0) {
		rows = session_ask(&s, "SELECT cluster.cordon($1::int, $2, $3::boolean) AS is_new",
		                   (const char *const[]){node, f.secret, is_cordoned}, 3, err);
		r = rows ? 0 : -EIO;
	}
	if (r == 0)
		*ret = json_pack("{ss sb}", "name", f.name, "is_new",
		                 strcmp(session_text(rows, "is_new"), "t") == 0);
	session_close(&s);
	node_file_done(&f);
	return r;
}

static int cordon(const struct order *o, const char *is_cordoned, json_t **ret, struct err *err)
{
	auto_call(PQclearp) PGresult *rows = NULL;
	struct session s = {0};
	int r;

	if (!o->owner || !o->node)
		return cordon_self(o, is_cordoned, ret, err);
	r = order_open_owner(o, &s, err);
	if (r == 0) {
		rows = session_ask(&s, "SELECT cluster.cordon_named($1, $2::boolean) AS is_new",
		                   (const char *const[]){o->node, is_cordoned}, 2, err);
		r = rows ? 0 : -EIO;
	}
	if (r == 0)
		*ret = json_pack("{ss sb}", "name", o->node, "is_new",
		                 strcmp(session_text(rows, "is_new"), "t") == 0);
	session_close(&s);
	return r;
}

int order_cordon(const struct order *o, json_t **ret, struct err *err)
{
	return cordon(o, "true", ret, err);
}

int order_uncordon(const struct order *o, json_t **ret, struct err *err)
{
	return cordon(o, "false", ret, err);
}

int order_remove(const struct order *o, json_t **ret, struct err *err)
{
	auto_call(PQclearp) PGresult *rows = NULL;
	struct session s = {0};
	int r = order_open_owner(o, &s, err);

	if (r == 0 && !o->node)
		r = err_field(err, "node", "is needed");
	if (r == 0) {
		rows = session_ask(&s, "SELECT cluster.remove_node($1) AS done",
		                   (const char *const[]){o->node}, 1, err);
		r = rows ? 0 : -EIO;
	}
	if (r == 0)
		*ret = json_pack("{ss}", "name", o->node);
	session_close(&s);
	return r;
}
