// SPDX-License-Identifier: Apache-2.0
#include "member/object_calls.h"

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "member/database/answer_rows.h"
#include "member/objects/transfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SCRATCH   "/"  /* the member's own directory */
#define MARKS_MAX 4096 /* of all nodes */

struct object_call {
	struct object_calls *calls;
	uint32_t seq;
	bool is_put;
	int fd;
	char project_id[ID_SIZE];
	struct object_manifest m;    /* of a put; of a get only what the claim must be */
	uint8_t new_key[OBJECT_KEY]; /* of a project that has none yet */
	struct digest *names;        /* what a put counts on */
	size_t n_names;
	json_t *done; /* its answer, if none of that is about to be removed */
};

bool object_calls_is(const char *name)
{
	return strcmp(name, "put_object") == 0 || strcmp(name, "get_object") == 0;
}

static void call_free(struct object_call *c)
{
	close_fd(&c->fd);
	explicit_bzero(c->new_key, sizeof(c->new_key));
	json_decref(c->done);
	free(c->names);
	free(c);
}

/* The gateway tells its user the message and what repairs it. */
static void refuse(struct object_call *c, enum trouble trouble, const char *message)
{
	auto_json json_t *all = json_pack("{s{ss ss ss}}", "error", "code", trouble_code(trouble),
	                                  "message", message, "hint", trouble_hint(trouble));

	log_warn("cluster.object_failed", "what=%s code=%s message='%s'", c->is_put ? "put" : "get",
	         trouble_code(trouble), message);
	gateway_link_answer(c->calls->link, c->seq, all);
	call_free(c);
}

static bool is_marked(const struct object_call *c, const json_t *names)
{
	const json_t *one;
	size_t i;

	json_array_foreach(names, i, one)
	{
		const char *hex = json_string_value(one);
		struct digest name;

		if (!hex || digest_parse(hex, &name) < 0)
			return true; /* what it means is not known */
		for (size_t k = 0; k < c->n_names; k++)
			if (digest_equal(&name, &c->names[k]))
				return true;
	}
	return false;
}

static void on_marks(const struct database_answer *answer, void *arg)
{
	struct object_call *c = arg;
	auto_json json_t *all = answer->rows ? rows_json(answer->rows, "answer") : NULL;
	const json_t *names = json_object_get(all, "names");

	if (!answer->rows) {
		refuse(c, answer->trouble, answer->message);
	} else if (!json_is_array(names) || json_array_size(names) > MARKS_MAX ||
	           is_marked(c, names)) {
		refuse(c, TROUBLE_STORE_UNREACHABLE,
		       "a part of it that the store had is being removed just now; it is tried "
		       "again");
	} else {
		gateway_link_answer(c->calls->link, c->seq, c->done);
		call_free(c);
	}
}

/* Behind the last write, and before any row: who removes an object marks it first, and then looks
 * whether it was written anew (collect/collect.h). */
static void look_at_marks(struct object_call *c, const struct transfer_result *r)
{
	const char *const params[] = {c->calls->node_text, c->calls->node->secret};

	c->n_names = r->manifest->n_chunks + 1;
	c->names = xnew0n(struct digest, c->n_names);
	c->names[0] = *r->name;
	memcpy(c->names + 1, r->manifest->chunks, r->manifest->n_chunks * sizeof(struct digest));
	if (database_call(c->calls->work, "SELECT cluster.marked_objects($1::int, $2) AS answer",
	                  params, ARRAY_SIZE(params), on_marks, c) < 0)
		refuse(c, TROUBLE_UNREACHABLE, "PostgreSQL is not reached");
}

static void on_moved(const struct transfer_result *r, void *arg)
{
	struct object_call *c = arg;
	auto_json json_t *all = NULL;

	if (r->trouble) {
		refuse(c, r->trouble, r->message);
		return;
	}
	all = json_pack("{ss sI sI sI sI}", "result", "ok", "bytes", (json_int_t)r->bytes, "chunks",
	                (json_int_t)r->n_chunks, "zero", (json_int_t)r->n_zero, "there",
	                (json_int_t)r->n_there);
	close_fd(&c->fd); /* before it is told: the broker looks whether anybody can write */
	if (c->is_put) {
		c->done = take_ptr(all);
		look_at_marks(c, r);
		return;
	}
	gateway_link_answer(c->calls->link, c->seq, all);
	call_free(c);
}

static int take_target(const struct object_manifest *m, char message[200], void *arg)
{
	const struct object_call *c = arg;

	if (m->claim.size == c->m.claim.size && digest_equal(&m->claim.digest, &c->m.claim.digest))
		return c->fd;
	(void)snprintf(message, 200, "the manifest is about something else");
	return -1;
}

static void move(struct object_call *c, const struct object_keys *keys)
{
	const struct transfer_target target = {.take = take_target, .done = on_moved, .arg = c};

	if (c->is_put)
		transfer_upload(c->calls->pool, keys, &c->m, c->fd, SCRATCH, on_moved, c);
	else
		transfer_download(c->calls->pool, keys, c->m.claim.kind, &c->m.claim.digest,
		                  c->m.claim.generation, SCRATCH, &target);
}

/* {"wrapped": …} */
static void on_key(const struct database_answer *answer, void *arg)
{
	struct object_call *c = arg;
	const struct object_calls *calls = c->calls;
	auto_json json_t *all = NULL;
	const char *text, *wrapped;
	struct object_keys keys;
	uint8_t key[OBJECT_KEY];
	struct err err;
	int r;

	if (!answer->rows) {
		refuse(c, answer->trouble, answer->message);
		return;
	}
	text = PQntuples(answer->rows) == 1 ? PQgetvalue(answer->rows, 0, 0) : "";
	if (json_parse(text, strlen(text), &all, &err) < 0) {
		refuse(c, TROUBLE_DATABASE, "the database has answered with another shape");
		return;
	}
	wrapped = json_string_value(json_object_get(all, "wrapped"));
	if (!wrapped) {
		refuse(c, TROUBLE_STORE_ABSENT, "the project has no key of objects any more");
		return;
	}
	r = object_key_unwrap(calls->wrapping_key, calls->node->cluster_id, c->project_id, wrapped,
	                      key);
	if (r < 0) {
		refuse(c, TROUBLE_STORE_KEYLESS,
		       "this node's keys of objects are not those of its cluster");
		return;
	}
	object_keys_derive(key, &keys);
	explicit_bzero(key, sizeof(key));
	move(c, &keys);
	object_keys_wipe(&keys);
}

static int ask_key(struct object_call *c, uint64_t epoch)
{
	const struct object_calls *calls = c->calls;
	char wrapped[OBJECT_WRAPPED_TEXT], epoch_text[24];
	const char *const params[] = {calls->node_text, calls->node->secret, epoch_text,
	                              c->project_id, c->is_put ? wrapped : NULL};
	int r = 0;

	(void)snprintf(epoch_text, sizeof(epoch_text), "%" PRIu64, epoch);
	if (c->is_put) {
		random_bytes(c->new_key, sizeof(c->new_key));
		r = object_key_wrap(calls->wrapping_key, calls->node->cluster_id, c->project_id,
		                    c->new_key, wrapped);
	}
	if (r == 0)
		r = database_call(calls->work,
		                  "SELECT cluster.object_key($1::int, $2, $3::bigint, $4, $5) AS "
		                  "answer",
		                  params, ARRAY_SIZE(params), on_key, c);
	return r;
}

static int read_digest(const json_t *object, const char *name, struct digest *ret)
{
	const char *hex = json_string_value(json_object_get(object, name));

	return hex ? digest_parse(hex, ret) : -EINVAL;
}

static int read_kind(const json_t *call, struct object_claim *c)
{
	const char *kind = json_string_value(json_object_get(call, "kind"));
	const json_int_t generation = json_integer_value(json_object_get(call, "generation"));

	c->kind = kind && strcmp(kind, "files") == 0 ? OBJECT_FILES : OBJECT_IMAGE;
	c->generation = (uint64_t)generation;
	return !kind || generation < 0 || (strcmp(kind, "image") != 0 && c->kind == OBJECT_IMAGE)
	               ? -EINVAL
	               : 0;
}

static int read_put(const json_t *call, struct object_manifest *m)
{
	const json_t *bases = json_object_get(call, "bases");

	if (read_digest(call, "class", &m->claim.class) < 0 ||
	    read_digest(call, "seal", &m->seal) < 0 || json_array_size(bases) > OBJECT_BASES_MAX)
		return -EINVAL;
	m->n_bases = json_array_size(bases);
	for (size_t i = 0; i < m->n_bases; i++) {
		const char *hex = json_string_value(json_array_get(bases, i));

		if (!hex || digest_parse(hex, &m->bases[i]) < 0)
			return -EINVAL;
	}
	return 0;
}

static int read_call(const json_t *call, struct object_call *c)
{
	const char *project = json_string_value(json_object_get(call, "project_id"));
	const json_int_t bytes = json_integer_value(json_object_get(call, "bytes"));

	if (!project || !project[0] || strlen(project) >= sizeof(c->project_id) || bytes <= 0 ||
	    (uint64_t)bytes > OBJECT_SIZE_MAX || c->fd < 0 ||
	    read_digest(call, "digest", &c->m.claim.digest) < 0 || read_kind(call, &c->m.claim) < 0)
		return -EINVAL;
	(void)snprintf(c->project_id, sizeof(c->project_id), "%s", project);
	c->m.claim.size = (uint64_t)bytes;
	return c->is_put ? read_put(call, &c->m) : 0;
}

void object_calls_take(struct object_calls *calls, uint32_t seq, const char *name,
                       const json_t *call, int fd, uint64_t epoch)
{
	struct object_call *c = xnew0(struct object_call);

	*c = (struct object_call){
		.calls = calls, .seq = seq, .fd = fd, .is_put = strcmp(name, "put_object") == 0};
	if (read_call(call, c) < 0)
		refuse(c, TROUBLE_STORE_SETTING, "a field of the call is of another type");
	else if (!calls->pool)
		refuse(c, TROUBLE_STORE_NONE, "this node keeps no objects");
	else if (!calls->wrapping_key)
		refuse(c, TROUBLE_STORE_KEYLESS, "this node has no keys of objects");
	else if (!calls->node || ask_key(c, epoch) < 0)
		refuse(c, TROUBLE_UNREACHABLE, "PostgreSQL is not reached");
}
