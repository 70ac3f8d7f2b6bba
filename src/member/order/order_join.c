// SPDX-License-Identifier: Apache-2.0
/*
 * The two ends of an invitation. A join that was interrupted goes on where it was: who the node is
 * going to be is on disk before anybody is asked.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/parse.h"
#include "base/units.h"
#include "member/order/order_parts.h"
#include "member/papers/authority.h"
#include "member/papers/node_keys.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECRET_BYTES  32
#define SIGNED_MAX_US (60 * SECOND_US)
#define TAGS_TRIES    8

/* What has expired a day ago is of no use to anybody. */
static void sweep(const char *dir)
{
	auto_dir struct dir_reader names = {.fd = -1};
	const char *name;

	if (dir_open(&names, AT_FDCWD, dir) < 0)
		return;
	while ((name = dir_next(&names))) {
		auto_free char *path = xasprintf("%s/%s", dir, name);
		auto_json json_t *kept = json_load_file(path, 0, NULL);
		json_int_t expires_s = json_integer_value(json_object_get(kept, "expires_s"));

		if (kept && expires_s + 86400 < (json_int_t)time(NULL))
			(void)unlink(path);
	}
}

static int keep_proof(const struct order *o, const struct invitation *i, struct err *err)
{
	auto_free char *dir = node_file_path(o->data_dir, "root/invitations");
	auto_free char *path = xasprintf("%s/%s", dir, i->id);
	char hex[DIGEST_HEX];
	struct digest key;
	auto_json json_t *kept = NULL;
	auto_free char *text = NULL;
	uid_t uid;
	gid_t gid;
	int r;

	sweep(dir);
	invitation_proof_key(i, &key);
	digest_to_hex(&key, hex);
	kept = json_pack("{ss sI}", "proof_key", hex, "expires_s", (json_int_t)i->expires_s);
	text = json_dumps(kept, JSON_COMPACT);
	node_file_user(&uid, &gid);
	r = text ? fd_replace_file(AT_FDCWD, path, text, strlen(text), 0600, /* sync= */ true)
	         : -ENOMEM;
	if (r == 0 && chown(path, uid, gid) < 0)
		r = -errno;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write '%s'", path) : 0;
}

static int say_invite(struct session *s, const struct node_file *f, const struct invitation *i,
                      uint64_t lifetime_s, struct err *err)
{
	char node[16], hash[DIGEST_HEX], lifetime[24];
	const char *const params[] = {node, f->secret, i->id, hash, lifetime};
	auto_call(PQclearp) PGresult *rows = NULL;

	(void)snprintf(node, sizeof(node), "%u", f->node);
	(void)snprintf(lifetime, sizeof(lifetime), "%" PRIu64, lifetime_s);
	invitation_door_hash(i, hash);
	rows = session_ask(s, "SELECT cluster.invite($1::int, $2, $3, $4, $5::int)", params,
	                   ARRAY_SIZE(params), err);
	return rows ? 0 : -EIO;
}

/* The keys of objects, if this node has them: the new one is told without them else. */
static int say_parcel(const struct order *o, struct session *s, const struct node_file *f,
                      const struct invitation *i, struct err *err)
{
	auto_free char *parcel = node_keys_wrap(o->data_dir, i);
	auto_call(PQclearp) PGresult *rows = NULL;
	char node[16];
	const char *const params[] = {node, f->secret, i->id, parcel};

	if (!parcel)
		return 0;
	(void)snprintf(node, sizeof(node), "%u", f->node);
	rows = session_ask(s, "SELECT cluster.keep_parcel($1::int, $2, $3, $4)", params,
	                   ARRAY_SIZE(params), err);
	return rows ? 0 : -EIO;
}

int order_invite(const struct order *o, json_t **ret, struct err *err)
{
	auto_free char *certificate = node_file_load(o->data_dir, "authority.crt");
	auto_free char *key = node_file_load(o->data_dir, "authority.key");
	auto_free char *token = NULL;
	struct invitation i = {0};
	struct node_file f = {0};
	struct session s = {0};
	int r = order_open(o, &f, &s, err);

	if (r == 0 && (!key || !certificate)) {
		(void)err_set(
			err, ERR_CONFLICT, 0,
			"this node cannot sign certificates: the authority's key is not here");
		r = err_hint(err, "run it on the node that made the cluster; `cloche node ls` "
		                  "lists it first");
	}
	if (r == 0)
		r = authority_digest(certificate, &i.authority, err);
	if (r == 0) {
		id_make(i.id, "inv");
		random_bytes(i.key, sizeof(i.key));
		i.cluster_id = xstrdup(f.cluster_id);
		i.user = xstrdup(f.user);
		i.password = xstrdup(f.password);
		i.expires_s = clock_wall_us() / SECOND_US + o->lifetime_s;
		r = keep_proof(o, &i, err);
	}
	if (r == 0)
		r = say_invite(&s, &f, &i, o->lifetime_s, err);
	if (r == 0)
		r = say_parcel(o, &s, &f, &i, err);
	if (r == 0) {
		token = invitation_write(&i);
		*ret = json_pack("{ss ss ss sI}", "token", token, "id", i.id, "cluster_id",
		                 i.cluster_id, "expires_s", (json_int_t)i.expires_s);
	}
	session_close(&s);
	node_file_done(&f);
	invitation_done(&i);
	return r;
}

/* A node file for this invitation: the one that an interrupted join has left, or a new one. */
static int begin(const struct order *o, const struct invitation *i, struct node_file *f,
                 struct err *err)
{
	char secret[base64_size(SECRET_BYTES)];
	uint8_t bytes[SECRET_BYTES];
	auto_free char *key = NULL, *request = NULL;
	struct err ignored;
	int r = node_file_read(f, o->data_dir, &ignored);

	if (r == 0 && f->invitation && strcmp(f->invitation, i->id) == 0)
		return 0;
	node_file_done(f);
	r = order_need_alone(o, err);
	if (r == 0)
		r = node_check(o->name, o->address ? o->address : "", err);
	if (r == 0)
		r = node_file_prepare(o->data_dir, err);
	if (r == 0)
		r = authority_make_request(o->name, &key, &request, err);
	if (r < 0)
		return r;
	random_bytes(bytes, sizeof(bytes));
	(void)base64url_encode(bytes, sizeof(bytes), secret);
	f->cluster_id = xstrdup(i->cluster_id);
	f->name = xstrdup(o->name);
	f->address = xstrdup(o->address);
	f->secret = xstrdup(secret);
	f->user = xstrdup(i->user);
	f->password = xstrdup(i->password);
	f->invitation = xstrdup(i->id);
	node_file_draw_tags(f);
	r = node_file_save(o->data_dir, "node.key", key, err);
	if (r == 0)
		r = node_file_save(o->data_dir, "node.csr", request, err);
	return r < 0 ? r : node_file_write(f, o->data_dir, err);
}

static int use_once(struct session *s, const struct invitation *i, struct node_file *f,
                    const char *request, struct err *err)
{
	auto_free char *tags = order_tags(f);
	char key[DIGEST_HEX], proof[DIGEST_HEX];
	const char *const params[] = {i->id,     key,  f->name, f->address,
	                              f->secret, tags, request, proof};
	auto_call(PQclearp) PGresult *rows = NULL;
	struct digest proof_key, proved;
	uint64_t number;

	invitation_door_key(i, key);
	invitation_proof_key(i, &proof_key);
	invitation_prove(&proof_key, f->name, f->address, request, &proved);
	digest_to_hex(&proved, proof);
	rows = session_ask(s,
	                   "SELECT cluster.use_invitation($1, $2, $3, $4, $5, $6::int[], $7, $8) "
	                   "AS node",
	                   params, ARRAY_SIZE(params), err);
	if (!rows)
		return strstr(err->message, "node_tags_pkey") ? -EAGAIN : -EIO;
	if (parse_u64(session_text(rows, "node"), INT32_MAX, &number) < 0 || number == 0)
		return err_set(err, ERR_INTERNAL, 0, "the database gave no number");
	f->node = (uint32_t)number;
	return 0;
}

static int use(const struct order *o, struct session *s, const struct invitation *i,
               struct node_file *f, struct err *err)
{
	auto_free char *request = node_file_load(o->data_dir, "node.csr");
	int r = -EAGAIN;

	if (!request)
		return err_set(err, ERR_INTERNAL, 0, "the request of this node is gone");
	for (size_t n = 0; r == -EAGAIN && n < TAGS_TRIES; n++) {
		if (n > 0)
			node_file_draw_tags(f); /* somebody else has one of them */
		r = use_once(s, i, f, request, err);
	}
	return r < 0 ? r : node_file_write(f, o->data_dir, err);
}

/* Waits for the member that signs. */
static int await_certificate(struct session *s, const struct node_file *f, char **ret,
                             struct err *err)
{
	const uint64_t until_us = clock_steady_us() + SIGNED_MAX_US;
	const struct timespec pause = {.tv_nsec = 200 * 1000 * 1000};
	char node[16];
	const char *const params[] = {node, f->secret};

	(void)snprintf(node, sizeof(node), "%u", f->node);
	while (clock_steady_us() < until_us) {
		auto_call(PQclearp) PGresult *rows =
			session_ask(s, "SELECT * FROM cluster.certificate_of($1::int, $2)", params,
		                    ARRAY_SIZE(params), err);

		if (!rows)
			return -EIO;
		if (session_text(rows, "refusal")[0])
			return trouble_set(err, TROUBLE_INVITATION_UNKNOWN,
			                   "the node that signs has refused: %.200s",
			                   session_text(rows, "refusal"));
		if (session_text(rows, "certificate")[0]) {
			*ret = xstrdup(session_text(rows, "certificate"));
			return 0;
		}
		(void)nanosleep(&pause, NULL);
	}
	return trouble_set(err, TROUBLE_UNSIGNED, "nobody has signed this node's certificate");
}

/* Once: the database forgets them then. */
static int take_parcel(const struct order *o, struct session *s, const struct invitation *i,
                       const struct node_file *f, struct err *err)
{
	auto_call(PQclearp) PGresult *rows = NULL;
	auto_call(PQclearp) PGresult *done = NULL;
	char node[16];
	const char *const params[] = {node, f->secret};
	int r = 0;

	(void)snprintf(node, sizeof(node), "%u", f->node);
	rows = session_ask(s, "SELECT cluster.parcel_of($1::int, $2) AS parcel", params,
	                   ARRAY_SIZE(params), err);
	if (!rows)
		return -EIO;
	if (!session_text(rows, "parcel")[0])
		return 0; /* the inviting node has none, or they were taken by then */
	r = node_keys_take(o->data_dir, i, session_text(rows, "parcel"), err);
	if (r < 0)
		return r;
	done = session_ask(s, "SELECT cluster.drop_parcel($1::int, $2)", params, ARRAY_SIZE(params),
	                   err);
	return done ? 0 : -EIO;
}

static int finish(const struct order *o, const PGresult *hello, const char *certificate,
                  struct node_file *f, struct err *err)
{
	const char *authority = session_text(hello, "certificate");
	auto_free char *key = node_file_load(o->data_dir, "node.key");
	struct err why = {0};
	int r;

	if (!key || authority_check(authority, certificate, key, f->name, &why) < 0)
		return trouble_set(err, TROUBLE_FORGED, "%s", why.message);
	r = node_file_save(o->data_dir, "authority.crt", authority, err);
	if (r == 0)
		r = node_file_save(o->data_dir, "node.crt", certificate, err);
	if (r < 0)
		return r;
	free(f->invitation);
	f->invitation = NULL;
	return node_file_write(f, o->data_dir, err);
}

static int check_authority(const PGresult *hello, const struct invitation *i, struct err *err)
{
	struct digest has = {0};
	struct err ignored;

	if (authority_digest(session_text(hello, "certificate"), &has, &ignored) < 0 ||
	    !digest_equal(&has, &i->authority))
		return trouble_set(err, TROUBLE_FORGED,
		                   "the database shows another authority than the invitation");
	return 0;
}

/* A join that got no number has left nothing that could go on. */
static void forget(const struct order *o)
{
	auto_free char *path = node_file_path(o->data_dir, "node.json");

	(void)unlink(path);
}

static int join(const struct order *o, const struct invitation *i, struct node_file *f,
                struct err *err)
{
	auto_call(PQclearp) PGresult *hello = NULL;
	auto_free char *certificate = NULL;
	struct session s = {0};
	int r = order_open_as(o, f->user, f->password, f->cluster_id, &s, &hello, err);

	if (r == 0)
		r = check_authority(hello, i, err);
	if (r == 0)
		r = use(o, &s, i, f, err);
	if (r == 0)
		r = await_certificate(&s, f, &certificate, err);
	if (r == 0)
		r = take_parcel(o, &s, i, f, err);
	if (r == 0)
		r = finish(o, hello, certificate, f, err);
	session_close(&s);
	return r;
}

int order_join(const struct order *o, json_t **ret, struct err *err)
{
	struct invitation i = {0};
	struct node_file f = {0};
	int r = invitation_parse(o->token ? o->token : "", &i, err);

	if (r == 0)
		r = order_need_postgres(o, err);
	if (r == 0)
		r = begin(o, &i, &f, err);
	if (r == 0) {
		r = join(o, &i, &f, err);
		if (r < 0 && f.node == 0)
			forget(o);
	}
	if (r == 0) {
		*ret = json_pack("{ss sI ss ss}", "cluster_id", f.cluster_id, "node",
		                 (json_int_t)f.node, "name", f.name, "address", f.address);
		order_tell_member(o);
	}
	node_file_done(&f);
	invitation_done(&i);
	return r;
}
