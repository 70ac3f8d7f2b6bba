// SPDX-License-Identifier: Apache-2.0
#include "member/order/order_parts.h"

#include "member/member.h"
#include "member/papers/signing.h"
#include "member/status_socket.h"

int order_need_postgres(const struct order *o, struct err *err)
{
	if (o->postgres)
		return 0;
	(void)err_field(err, "cluster.postgres", "names no database yet");
	return err_hint(err, "write it into the settings file, under [cluster]: postgres = "
	                     "\"host=db.example dbname=cloche\"");
}

int order_need_alone(const struct order *o, struct err *err)
{
	struct node_file f = {0};
	int r = node_file_read(&f, o->data_dir, err);

	if (r == -ENOENT)
		return 0;
	if (!o->is_replacing) {
		(void)err_set(err, ERR_CONFLICT, 0, "this node is in the cluster %.40s already",
		              r == 0 ? f.cluster_id : "of a damaged file");
		r = err_hint(err, "`cloche cluster status` shows more; with --replace it leaves "
		                  "that one, whose files are kept in DATA/cluster/old");
	} else {
		r = node_file_set_aside(o->data_dir, err);
	}
	node_file_done(&f);
	return r;
}

int order_open_as(const struct order *o, const char *user, const char *password,
                  const char *cluster_id, struct session *s, PGresult **ret_hello, struct err *err)
{
	struct conninfo conninfo = {0};
	int r = order_need_postgres(o, err);

	if (r == 0)
		r = conninfo_read(&conninfo, "cluster.postgres", o->postgres, err);
	if (r == 0)
		r = conninfo_for_member(&conninfo, user, password, err);
	if (r == 0)
		r = session_open(s, &conninfo, err);
	conninfo_done(&conninfo);
	if (r < 0)
		return r;
	*ret_hello = session_ask(s, "SELECT * FROM cluster.hello()", NULL, 0, err);
	if (!*ret_hello)
		return -EIO;
	return signing_check_hello(*ret_hello, cluster_id, MEMBER_SCHEMA, err) == TROUBLE_NONE
	               ? 0
	               : -EPROTO;
}

int order_open(const struct order *o, struct node_file *f, struct session *s, struct err *err)
{
	auto_call(PQclearp) PGresult *hello = NULL;
	int r = node_file_read(f, o->data_dir, err);

	return r < 0 ? r : order_open_as(o, f->user, f->password, f->cluster_id, s, &hello, err);
}

void order_tell_member(const struct order *o)
{
	auto_json json_t *status = NULL;
	struct err err;

	(void)!status_socket_ask(o->run_dir, STATUS_SOCKET_AGAIN, &status, &err);
}
