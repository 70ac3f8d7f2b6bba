// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a cluster in a database, and keeps its rights as they should be. Three roles: the one that
 * runs this command, whose login is not kept; an owner without a login, by which all functions run,
 * so that a superuser who makes a cluster lends it nothing; and the members', which may call
 * functions and nothing else.
 */
#include "base/fd.h"
#include "base/parse.h"
#include "member/member.h"
#include "member/order/order_parts.h"
#include "member/papers/authority.h"
#include "member/papers/node_keys.h"
#include "member/papers/signing.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SERVER_LEAST   150000
#define PASSWORD_BYTES 24
#define SECRET_BYTES   32
#define SUFFIX_LETTERS 8 /* of the cluster's id, in names of roles */
#define RIGHTS_MARK    "-- Nobody may do what is not said here."

extern const unsigned char cluster_schema[], cluster_schema_2[], cluster_schema_3[],
	cluster_schema_4[], cluster_schema_5[], cluster_schema_6[], cluster_schema_7[],
	cluster_schema_8[], cluster_schema_9[], cluster_schema_10[], cluster_schema_11[];
extern const size_t cluster_schema_len, cluster_schema_2_len, cluster_schema_3_len,
	cluster_schema_4_len, cluster_schema_5_len, cluster_schema_6_len, cluster_schema_7_len,
	cluster_schema_8_len, cluster_schema_9_len, cluster_schema_10_len, cluster_schema_11_len;

/* The first makes number 1; each of the others only adds to the one before it, and says its number
 * in the database itself. */
static const struct {
	const unsigned char *text;
	const size_t *len;
} schema_steps[] = {
	{cluster_schema, &cluster_schema_len},       {cluster_schema_2, &cluster_schema_2_len},
	{cluster_schema_3, &cluster_schema_3_len},   {cluster_schema_4, &cluster_schema_4_len},
	{cluster_schema_5, &cluster_schema_5_len},   {cluster_schema_6, &cluster_schema_6_len},
	{cluster_schema_7, &cluster_schema_7_len},   {cluster_schema_8, &cluster_schema_8_len},
	{cluster_schema_9, &cluster_schema_9_len},   {cluster_schema_10, &cluster_schema_10_len},
	{cluster_schema_11, &cluster_schema_11_len},
};
static_assert(ARRAY_SIZE(schema_steps) == MEMBER_SCHEMA, "a step for each number");

static void draw(char *ret, size_t n_bytes)
{
	uint8_t bytes[64];

	random_bytes(bytes, n_bytes);
	(void)base64url_encode(bytes, n_bytes, ret);
	explicit_bzero(bytes, sizeof(bytes));
}

int order_open_owner(const struct order *o, struct session *s, struct err *err)
{
	struct conninfo conninfo = {0};
	int r;

	if (!o->owner) {
		(void)err_field(err, "owner", "is needed: who may make schemas and roles there");
		return err_hint(err, "--owner 'host=db.example dbname=cloche user=postgres'; the "
		                     "password is taken from PGPASSWORD or ~/.pgpass");
	}
	r = conninfo_read(&conninfo, "CONNINFO", o->owner, err);
	if (r == 0) {
		conninfo_default(&conninfo, "dbname", "cloche");
		conninfo_set(&conninfo, "target_session_attrs", "read-write");
		r = session_open(s, &conninfo, err);
	}
	conninfo_done(&conninfo);
	if (r < 0) {
		(void)err_prefix(err, "--owner");
		return err_hint(err, "try the same with psql; the password is taken from "
		                     "PGPASSWORD or ~/.pgpass");
	}
	if (PQserverVersion(s->conn) < SERVER_LEAST) {
		(void)err_set(err, ERR_UNSUPPORTED, 0, "PostgreSQL %d is too old",
		              PQserverVersion(s->conn) / 10000);
		return err_hint(err, "15 is the least");
	}
	return session_run(s, "SET client_min_messages = warning", err);
}

static int has_schema(struct session *s, bool *ret, struct err *err)
{
	auto_call(PQclearp) PGresult *rows = session_ask(
		s, "SELECT to_regnamespace('cluster') IS NOT NULL AS has", NULL, 0, err);

	if (!rows)
		return -EIO;
	*ret = strcmp(session_text(rows, "has"), "t") == 0;
	return 0;
}

/* The names have letters of ids alone, and the password is a verifier: nothing here needs quotes
 * that it could break. */
static int make_roles(struct session *s, const struct node_file *f, const char *owner,
                      struct err *err)
{
	char *verifier = PQencryptPasswordConn(s->conn, f->password, f->user, "scram-sha-256");
	auto_free char *sql = NULL;
	int r;

	if (!verifier)
		return err_set(err, ERR_INTERNAL, 0, "cannot make the members' password");
	sql = xasprintf("DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = "
	                "'cloche_node') THEN CREATE ROLE cloche_node NOLOGIN; END IF; END $$;"
	                "CREATE ROLE %s NOLOGIN; GRANT %s TO CURRENT_USER;"
	                "CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE cloche_node;"
	                "ALTER ROLE %s SET statement_timeout = '10s';"
	                "ALTER ROLE %s SET lock_timeout = '5s';"
	                "ALTER ROLE %s SET idle_in_transaction_session_timeout = '10s';"
	                "DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %%I TO %s', "
	                "current_database()); END $$;",
	                owner, owner, f->user, verifier, f->user, f->user, f->user, owner);
	PQfreemem(verifier);
	r = session_run(s, sql, err);
	explicit_bzero(sql, strlen(sql));
	return r;
}

/* Those behind the number that the database has. */
static int run_steps(struct session *s, size_t has, struct err *err)
{
	int r = 0;

	for (size_t i = has; r == 0 && i < ARRAY_SIZE(schema_steps); i++) {
		auto_free char *text =
			xstrndup((const char *)schema_steps[i].text, *schema_steps[i].len);

		r = session_run(s, text, err);
	}
	return r;
}

static int make_schema(struct session *s, const char *owner, struct err *err)
{
	auto_free char *as_owner = xasprintf("SET LOCAL ROLE %s", owner);
	int r = session_run(s, as_owner, err);

	return r < 0 ? r : run_steps(s, 0, err);
}

char *order_tags(const struct node_file *f)
{
	struct buf text = BUF_INIT(512);
	int r = buf_append_str(&text, "{");
	char *tags;

	for (size_t i = 0; r == 0 && i < TAGS_PER_NODE; i++)
		r = buf_printf(&text, "%s%u", i > 0 ? "," : "", f->tags[i]);
	if (r == 0)
		r = buf_append_str(&text, "}");
	tags = r == 0 ? xstrdup(buf_str(&text)) : NULL;
	buf_done(&text);
	if (!tags)
		abort(); /* 16 numbers fit */
	return tags;
}

static int fill(struct session *s, const struct order *o, struct node_file *f,
                const char *certificate, struct err *err)
{
	auto_free char *tags = order_tags(f);
	char fence[24], lost[24];
	const char *const cluster[] = {f->cluster_id, certificate, fence, lost};
	const char *const node[] = {f->address, f->secret, tags, f->name};
	auto_call(PQclearp) PGresult *rows = NULL;
	auto_call(PQclearp) PGresult *added = NULL;
	uint64_t number;

	(void)snprintf(fence, sizeof(fence), "%" PRIu64, o->fence_after_ms);
	(void)snprintf(lost, sizeof(lost), "%" PRIu64, o->lost_after_ms);
	rows = session_ask(s,
	                   "INSERT INTO cluster.cluster (cluster_id, certificate, fence_after_ms, "
	                   "lost_after_ms) VALUES ($1, $2, $3::bigint, $4::bigint) RETURNING 1",
	                   cluster, ARRAY_SIZE(cluster), err);
	if (!rows)
		return -EIO;
	added = session_ask(s, "SELECT cluster.add_node($1, $2, $3::int[], $4) AS node", node,
	                    ARRAY_SIZE(node), err);
	if (!added)
		return -EIO;
	if (parse_u64(session_text(added, "node"), INT32_MAX, &number) < 0)
		return err_set(err, ERR_INTERNAL, 0, "the database gave no number");
	f->node = (uint32_t)number;
	return 0;
}

static int save(const struct order *o, const struct node_file *f,
                const struct authority_pems *authority, struct err *err)
{
	auto_free char *key = NULL, *request = NULL, *certificate = NULL;
	int r = authority_make_request(f->name, &key, &request, err);

	if (r == 0)
		r = authority_sign(authority, request,
		                   &(struct authority_subject){.cluster_id = f->cluster_id,
		                                               .name = f->name,
		                                               .address = f->address},
		                   &certificate, err);
	if (r == 0)
		r = node_file_save(o->data_dir, "authority.key", authority->key, err);
	if (r == 0)
		r = node_file_save(o->data_dir, "authority.crt", authority->certificate, err);
	if (r == 0)
		r = node_file_save(o->data_dir, "node.key", key, err);
	if (r == 0)
		r = node_file_save(o->data_dir, "node.crt", certificate, err);
	return r < 0 ? r : node_file_write(f, o->data_dir, err);
}

/* That the keys of objects were made: once for a cluster, on the node that has the authority's key.
 */
static int note_keys(struct session *s, struct err *err)
{
	return session_run(s, "UPDATE cluster.cluster SET has_object_keys = true", err);
}

/* A cluster from before there were keys of objects gets them. */
static int make_keys(struct session *s, const struct order *o, bool *ret_made, struct err *err)
{
	auto_free char *authority = node_file_load(o->data_dir, "authority.key");
	auto_call(PQclearp) PGresult *rows = session_ask(
		s, "SELECT has_object_keys FROM cluster.cluster FOR UPDATE", NULL, 0, err);
	int r = rows ? 0 : -EIO;

	*ret_made = false;
	if (r < 0 || !authority || strcmp(session_text(rows, "has_object_keys"), "t") == 0)
		return r;
	*ret_made = !node_keys_exist(o->data_dir); /* else the last one was cut off here */
	if (*ret_made)
		r = node_keys_make(o->data_dir, err);
	return r < 0 ? r : note_keys(s, err);
}

/* Files before the commit: a cluster whose authority's key is lost is of no use. */
static int make(struct session *s, const struct order *o, struct node_file *f,
                const struct authority_pems *authority, struct err *err)
{
	auto_free char *owner =
		xasprintf("cloche_owner_%.*s", SUFFIX_LETTERS, f->cluster_id + strlen("cl_"));
	int r = session_run(s, "BEGIN", err);

	if (r == 0)
		r = make_roles(s, f, owner, err);
	if (r == 0)
		r = make_schema(s, owner, err);
	if (r == 0)
		r = fill(s, o, f, authority->certificate, err);
	if (r == 0)
		r = save(o, f, authority, err);
	if (r == 0)
		r = node_keys_make(o->data_dir, err);
	if (r == 0)
		r = note_keys(s, err);
	if (r == 0)
		r = session_run(s, "COMMIT", err);
	if (r < 0) {
		auto_free char *path = node_file_path(o->data_dir, "node.json");

		(void)unlink(path);
	}
	return r;
}

static void fill_file(struct node_file *f, const struct order *o)
{
	char id[ID_SIZE], secret[base64_size(SECRET_BYTES)], password[base64_size(PASSWORD_BYTES)];

	id_make(id, "cl");
	draw(secret, SECRET_BYTES);
	draw(password, PASSWORD_BYTES);
	f->cluster_id = xstrdup(id);
	f->secret = xstrdup(secret);
	f->password = xstrdup(password);
	f->user = xasprintf("cloche_member_%.*s", SUFFIX_LETTERS, id + strlen("cl_"));
	f->name = xstrdup(o->name);
	f->address = xstrdup(o->address);
	node_file_draw_tags(f);
}

/* Whether members can log in: pg_hba.conf may say otherwise. NULL: they can. */
static json_t *try_login(const struct order *o, const struct node_file *f)
{
	auto_call(PQclearp) PGresult *hello = NULL;
	struct session s = {0};
	struct err err = {0};
	int r = order_open_as(o, f->user, f->password, f->cluster_id, &s, &hello, &err);

	session_close(&s);
	return r == 0 ? NULL
	              : json_pack("{ss ss ss}", "code", err.field, "message", err.message, "hint",
	                          err.hint);
}

int order_init(const struct order *o, json_t **ret, struct err *err)
{
	struct authority_pems authority = {.lifetime_s = o->certificate_s};
	struct node_file f = {0};
	struct session s = {0};
	bool has = false;
	int r = order_need_postgres(o, err);

	if (r == 0)
		r = node_check(o->name, o->address ? o->address : "", err);
	if (r == 0)
		r = order_open_owner(o, &s, err);
	if (r == 0)
		r = has_schema(&s, &has, err);
	if (r == 0 && has) {
		(void)err_set(err, ERR_CONFLICT, 0, "this database has a cluster already");
		r = err_hint(err, "to add this node to it: `cloche cluster invite` on the node "
		                  "that made it, and `cloche node join TOKEN` here; else name an "
		                  "empty database");
	}
	if (r == 0)
		r = order_need_alone(o, err);
	if (r == 0)
		r = node_file_prepare(o->data_dir, err);
	if (r == 0) {
		fill_file(&f, o);
		r = authority_make(f.cluster_id, &authority, err);
	}
	if (r == 0)
		r = make(&s, o, &f, &authority, err);
	session_close(&s);
	if (r == 0) {
		json_t *problem = try_login(o, &f);

		*ret = json_pack("{ss sI ss ss ss so}", "cluster_id", f.cluster_id, "node",
		                 (json_int_t)f.node, "name", f.name, "address", f.address, "user",
		                 f.user, "problem", problem ? problem : json_null());
		order_tell_member(o);
	}
	free(authority.key);
	free(authority.certificate);
	node_file_done(&f);
	return r;
}

/* The last part of each step can be said again and again. */
static int renew_rights(struct session *s, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(schema_steps); i++) {
		auto_free char *text =
			xstrndup((const char *)schema_steps[i].text, *schema_steps[i].len);
		const char *rights = strstr(text, RIGHTS_MARK);

		r = rights ? session_run(s, rights, err)
		           : err_set(err, ERR_INTERNAL, 0, "a step of the schema has no rights");
	}
	return r;
}

/* All or nothing. Two that migrate at once come one behind the other, and the second finds nothing
 * to do. */
static int migrate(struct session *s, const struct order *o, size_t *ret_steps, bool *ret_keys,
                   struct err *err)
{
	auto_call(PQclearp) PGresult *rows = NULL;
	uint64_t has = 0;
	int r = session_run(s,
	                    "BEGIN; DO $$ BEGIN EXECUTE format('SET LOCAL ROLE %I', (SELECT "
	                    "pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = "
	                    "'cluster')); END $$; SET LOCAL search_path = cluster, pg_temp",
	                    err);

	if (r == 0) {
		rows = session_ask(s, "SELECT number FROM cluster.version FOR UPDATE", NULL, 0,
		                   err);
		r = rows ? 0 : -EIO;
	}
	if (r == 0 && parse_u64(session_text(rows, "number"), INT32_MAX, &has) < 0)
		r = err_set(err, ERR_INTERNAL, 0, "the database has no number of its schema");
	if (r == 0)
		r = run_steps(s, has, err);
	if (r == 0)
		r = renew_rights(s, err);
	if (r == 0)
		r = make_keys(s, o, ret_keys, err);
	*ret_steps = has < MEMBER_SCHEMA ? MEMBER_SCHEMA - has : 0;
	return r < 0 ? r : session_run(s, "COMMIT", err);
}

int order_migrate(const struct order *o, json_t **ret, struct err *err)
{
	auto_call(PQclearp) PGresult *hello = NULL;
	struct session s = {0};
	enum trouble trouble;
	bool has = false, is_made = false;
	size_t n_steps = 0;
	int r = order_open_owner(o, &s, err);

	if (r == 0)
		r = has_schema(&s, &has, err);
	if (r == 0 && !has)
		r = trouble_set(err, TROUBLE_NO_SCHEMA, "this database has no cluster");
	if (r == 0) {
		hello = session_ask(&s, "SELECT * FROM cluster.hello()", NULL, 0, err);
		r = hello ? 0 : -EIO;
	}
	if (r == 0) {
		trouble = signing_check_hello(hello, NULL, MEMBER_SCHEMA, err);
		r = trouble == TROUBLE_NONE || trouble == TROUBLE_BEHIND ? 0 : -EPROTO;
	}
	if (r == 0)
		r = migrate(&s, o, &n_steps, &is_made, err);
	if (r == 0)
		*ret = json_pack("{ss sI sI sb}", "cluster_id", session_text(hello, "cluster_id"),
		                 "number", (json_int_t)MEMBER_SCHEMA, "steps", (json_int_t)n_steps,
		                 "made_keys", is_made);
	session_close(&s);
	if (r == 0 && is_made)
		order_tell_member(o); /* it reads them */
	return r;
}
