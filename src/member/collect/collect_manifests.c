// SPDX-License-Identifier: Apache-2.0
/*
 * What is needed. The rows say which objects; a project's key says what their manifests are called;
 * a manifest says its chunks. Rows and manifests are strangers' texts: one of another shape ends
 * the round, as what it needs is not known. Of a row that has left lately the manifest may be gone.
 */
#include "member/collect/collect_private.h"

#include "base/fd.h"
#include "member/database/answer_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REFS_MAX     300000 /* different ones */
#define PROJECTS_MAX 100000
#define KIND_IMAGE   "image"
#define KIND_FILES   "files"

static int compare_refs(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct collect_object));
}

/* One object is named by many rows. A living row stands before one that has left. */
static void sort_refs(struct round *r)
{
	const size_t same = offsetof(struct collect_object, is_left);
	size_t n = 0;

	qsort(r->refs, r->n_refs, sizeof(*r->refs), compare_refs);
	for (size_t i = 0; i < r->n_refs; i++)
		if (n == 0 || memcmp(&r->refs[n - 1], &r->refs[i], same) != 0)
			r->refs[n++] = r->refs[i];
	r->n_refs = n;
}

static int find_project(struct round *r, const char *id, uint32_t *ret)
{
	struct collect_project *p = NULL;

	HASH_FIND_STR(r->by_id, id, p);
	if (!p && (r->n_projects == PROJECTS_MAX || !id[0] || strlen(id) >= ID_SIZE))
		return -EPROTO;
	if (!p) {
		p = xnew0(struct collect_project);
		p->at = (uint32_t)r->n_projects;
		(void)snprintf(p->id, sizeof(p->id), "%s", id);
		HASH_ADD_STR(r->by_id, id, p);
		r->projects = round_grow(r->projects, r->n_projects, &r->room_projects,
		                         sizeof(struct collect_project *));
		r->projects[r->n_projects++] = p;
	}
	*ret = p->at;
	return 0;
}

static int add_ref(struct round *r, const json_t *object, bool is_left)
{
	const char *project = json_string_value(json_object_get(object, "project_id"));
	const char *kind = json_string_value(json_object_get(object, "kind"));
	const char *hex = json_string_value(json_object_get(object, "digest"));
	const json_int_t generation = json_integer_value(json_object_get(object, "generation"));
	const json_int_t bytes = json_integer_value(json_object_get(object, "bytes"));
	struct collect_object ref = {.generation = (uint64_t)generation, .is_left = is_left};

	if (!project || !kind || !hex || generation < 0 || bytes <= 0 ||
	    (uint64_t)bytes > OBJECT_SIZE_MAX || digest_parse(hex, &ref.digest) < 0 ||
	    (strcmp(kind, KIND_IMAGE) != 0 && strcmp(kind, KIND_FILES) != 0) ||
	    find_project(r, project, &ref.project) < 0)
		return -EPROTO;
	ref.kind = strcmp(kind, KIND_IMAGE) == 0 ? OBJECT_IMAGE : OBJECT_FILES;
	if (r->n_refs == REFS_MAX)
		sort_refs(r);
	if (r->n_refs == REFS_MAX)
		return -E2BIG;
	r->refs = round_grow(r->refs, r->n_refs, &r->room_refs, sizeof(ref));
	r->refs[r->n_refs++] = ref;
	r->bytes_of_refs += (uint64_t)bytes;
	return 0;
}

static int add_row(struct round *r, const json_t *row)
{
	const json_t *objects = json_object_get(row, "objects"), *one;
	const char *at = json_string_value(json_object_get(row, "at"));
	size_t i;
	int e = 0;

	/* Rows come in their order: else a database could have them read without end. */
	if (!at || strcmp(at, r->after) <= 0 || !json_is_array(objects))
		return -EPROTO;
	json_array_foreach(objects, i, one)
	{
		e = add_ref(r, one, json_is_true(json_object_get(row, "is_left")));
		if (e < 0)
			return e;
	}
	free(r->after);
	r->after = xstrdup(at);
	return 0;
}

static void ask_keys(struct round *r);

static void on_rows(const struct database_answer *answer, void *arg)
{
	struct round *r = arg;
	auto_json json_t *all = answer->rows ? rows_json(answer->rows, "answer") : NULL;
	const json_t *rows = json_object_get(all, "rows"), *one;
	size_t i;
	int e = json_is_array(rows) ? 0 : -EPROTO;

	json_array_foreach(rows, i, one)
	{
		if (e == 0)
			e = add_row(r, one);
	}
	if (!answer->rows)
		round_fail(r, answer->trouble, answer->message);
	else if (e == -E2BIG)
		round_fail(r, TROUBLE_DATABASE, "more objects are named than one node can compare");
	else if (e < 0)
		round_fail(
			r, TROUBLE_DATABASE,
			"a row that names objects has another shape: what it needs is not known");
	if (!round_goes_on(r))
		return;
	if (json_array_size(rows) > 0)
		round_read_rows(r);
	else
		ask_keys(r);
}

void round_read_rows(struct round *r)
{
	const char *const more[] = {r->after};

	if (!round_keep_first(r, round_read_rows))
		round_ask(r, "SELECT cluster.object_rows($1::int, $2, $3) AS answer", more,
		          ARRAY_SIZE(more), on_rows);
}

static void begin_manifests(struct round *r);

static void on_key(const struct database_answer *answer, void *arg)
{
	struct round *r = arg;
	const struct member *m = r->collect->m;
	auto_json json_t *all = answer->rows ? rows_json(answer->rows, "answer") : NULL;
	const char *wrapped = json_string_value(json_object_get(all, "wrapped"));
	struct collect_project *p = r->projects[r->next_key];
	uint8_t key[OBJECT_KEY];

	if (!answer->rows) {
		round_fail(r, answer->trouble, answer->message);
	} else if (!wrapped) {
		round_fail(r, TROUBLE_DATABASE,
		           "a project whose rows name objects has no key of objects");
	} else if (object_key_unwrap(m->config.wrapping_key, m->config.node->cluster_id, p->id,
	                             wrapped, key) < 0) {
		round_fail(r, TROUBLE_STORE_KEYLESS,
		           "this node's keys of objects are not those of its cluster");
	} else {
		object_keys_derive(key, &p->keys);
		explicit_bzero(key, sizeof(key));
		r->next_key++;
	}
	if (round_goes_on(r))
		ask_keys(r);
}

static void ask_keys(struct round *r)
{
	char epoch[24];
	const char *more[] = {epoch, NULL, NULL};

	if (r->next_key == r->n_projects) {
		begin_manifests(r);
		return;
	}
	if (round_keep_first(r, ask_keys))
		return;
	more[1] = r->projects[r->next_key]->id;
	(void)snprintf(epoch, sizeof(epoch), "%" PRIu64, r->collect->m->fence.epoch);
	round_ask(r, "SELECT cluster.object_key($1::int, $2, $3::bigint, $4, $5) AS answer", more,
	          ARRAY_SIZE(more), on_key);
}

static void name_of(const struct round *r, const struct collect_object *ref, struct digest *ret)
{
	object_manifest_name(&r->projects[ref->project]->keys, ref->kind, &ref->digest,
	                     ref->generation, ret);
}

static void read_next(struct round *r);

static int add_chunks(struct round *r, const struct collect_slot *slot, size_t len)
{
	auto_free uint8_t *text = xcalloc(len + 1, 1);
	const struct collect_object *ref = &r->refs[slot->at];
	struct object_manifest m;

	if (pread(slot->fd, text, len, 0) != (ssize_t)len ||
	    object_manifest_read(text, len, &m) < 0)
		return -EBADMSG;
	for (size_t i = 0; i < m.n_chunks; i++)
		object_filter_add(r->needed, &m.chunks[i]);
	len = m.claim.kind == (enum object_kind)ref->kind &&
	      m.claim.generation == ref->generation && digest_equal(&m.claim.digest, &ref->digest);
	object_manifest_done(&m);
	return len ? 0 : -EBADMSG;
}

static void on_manifest(const struct store_result *result, void *arg)
{
	struct collect_slot *slot = arg;
	struct round *r = take_ptr(slot->round);
	const struct collect_object *ref = &r->refs[slot->at];
	const bool is_gone = result->trouble == TROUBLE_STORE_ABSENT && ref->is_left;
	char hex[DIGEST_HEX], message[MESSAGE_SIZE + 100];

	digest_to_hex(&ref->digest, hex);
	(void)snprintf(message, sizeof(message), "the manifest of %s of project %s: %s", hex,
	               r->projects[ref->project]->id,
	               result->trouble ? result->message : "it does not hold together");
	if (result->trouble && !is_gone)
		round_fail(r, (enum trouble)result->trouble, message);
	else if (!is_gone && add_chunks(r, slot, MIN(result->len, OBJECT_MANIFEST_MAX)) < 0)
		round_fail(r, TROUBLE_STORE_DAMAGED, message);
	close_fd(&slot->fd);
	if (round_goes_on(r))
		read_next(r);
}

static void read_next(struct round *r)
{
	struct store_job job = {.op = STORE_GET_MANIFEST};

	for (size_t i = 0; i < COLLECT_SLOTS && !r->trouble && r->next_ref < r->n_refs; i++) {
		struct collect_slot *slot = &r->slots[i];

		if (slot->round)
			continue;
		if (round_keep_first(r, read_next))
			return;
		slot->fd = round_scratch(r);
		if (slot->fd < 0)
			break;
		slot->round = r;
		slot->at = r->next_ref++;
		job.keys = r->projects[r->refs[slot->at].project]->keys;
		name_of(r, &r->refs[slot->at], &job.name);
		round_do(r, &job, slot->fd, on_manifest, slot);
	}
	object_keys_wipe(&job.keys);
	if (r->n_open > 0)
		return;
	if (r->trouble)
		round_end(r);
	else
		round_list(r);
}

static void begin_manifests(struct round *r)
{
	uint64_t seed;

	sort_refs(r);
	random_bytes(&seed, sizeof(seed));
	r->needed = object_filter_new(
		r->n_refs + (size_t)MIN(r->bytes_of_refs / OBJECT_CHUNK, UINT64_C(1) << 32), seed);
	for (size_t i = 0; i < r->n_refs; i++) {
		struct digest name;

		name_of(r, &r->refs[i], &name);
		object_filter_add(r->needed, &name);
	}
	read_next(r);
}
