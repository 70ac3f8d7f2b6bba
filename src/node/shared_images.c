// SPDX-License-Identifier: Apache-2.0
#include "node/shared_images.h"

#include "base/log.h"
#include "node/records_private.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_LEN 63
#define ID_CHARS     32          /* of a hash, in a record's id */
#define RECORD_MAX   (24 * 1024) /* the database's own text is longer by its spaces */
#define BYTES_MAX    (INT64_C(1) << 40)

struct row {
	char id[ID_SIZE]; /* the record's */
	struct node_image image;
	json_t *record, *manifest; /* have what image borrows */
	UT_hash_handle hh;
};

struct shared_images {
	struct row *rows;
	void (*fn)(void *arg);
	void *arg;
};

static void hash_text(const char *text, struct digest *ret)
{
	if (EVP_Digest(text, strlen(text), ret->bytes, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* no memory */
}

static const char *project_of(const char *project_id)
{
	return project_id[0] ? project_id : NODE_SHARED;
}

void node_image_class(const char *project_id, struct digest *ret)
{
	auto_free char *text = xasprintf("cloche project %s", project_of(project_id));

	hash_text(text, ret);
}

static void record_id(const char *project_id, const char *name, char ret[ID_SIZE])
{
	auto_free char *text = xasprintf("%s/%s", project_of(project_id), name);
	char hex[DIGEST_HEX];
	struct digest hash;

	hash_text(text, &hash);
	digest_to_hex(&hash, hex);
	(void)snprintf(ret, ID_SIZE, "img_%.*s", ID_CHARS, hex);
}

static bool is_name(const char *name)
{
	const size_t len = name ? strlen(name) : 0;

	return len > 0 && len <= NAME_MAX_LEN &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

static int read_part(const json_t *one, struct node_image_part *ret)
{
	const char *digest = json_string_value(json_object_get(one, "digest"));
	const char *seal = json_string_value(json_object_get(one, "seal"));
	const json_int_t bytes = json_integer_value(json_object_get(one, "bytes"));

	if (!digest || !seal || digest_parse(digest, &ret->image) < 0 ||
	    digest_parse(seal, &ret->seal) < 0 || bytes <= 0 || bytes > BYTES_MAX)
		return -EPROTO;
	ret->bytes = (uint64_t)bytes;
	return 0;
}

int node_image_read_parts(const json_t *parts, struct node_image *ret)
{
	const json_t *one;
	size_t i;

	ret->n_parts = json_array_size(parts);
	if (ret->n_parts > NODE_IMAGE_PARTS)
		return -EPROTO;
	json_array_foreach(parts, i, one)
	{
		if (read_part(one, &ret->parts[i]) < 0)
			return -EPROTO;
	}
	return 0;
}

static int read_image(const json_t *record, const char *project_id, struct node_image *ret)
{
	const char *id = json_string_value(json_object_get(record, "template_id"));
	const json_t *parts = json_object_get(record, "parts");
	const json_int_t created = json_integer_value(json_object_get(record, "created_us"));
	const json_int_t node = json_integer_value(json_object_get(record, "node"));
	const bool is_shared = strcmp(project_id, NODE_SHARED) == 0;

	ret->name = json_string_value(json_object_get(record, "name"));
	ret->was = json_object_get(record, "was");
	if (!id || !id_is_valid(id, "tpl") || !is_name(ret->name) || !json_is_array(ret->was) ||
	    node_image_read_parts(parts, ret) < 0 || ret->n_parts == 0 || created < 0 ||
	    node <= 0 || node > INT32_MAX || (!is_shared && !id_is_valid(project_id, "prj")))
		return -EPROTO;
	(void)snprintf(ret->project_id, sizeof(ret->project_id), "%s", is_shared ? "" : project_id);
	(void)snprintf(ret->template_id, sizeof(ret->template_id), "%s", id);
	ret->created_us = (uint64_t)created;
	ret->node = (uint32_t)node;
	ret->is_stored = json_is_true(json_object_get(record, "is_stored"));
	return 0;
}

static struct row *find_row(const struct shared_images *s, const char *id)
{
	struct row *row = NULL;

	HASH_FIND_STR(s->rows, id, row);
	return row;
}

static void drop_row(struct shared_images *s, struct row *row)
{
	HASH_DEL(s->rows, row);
	json_decref(row->record);
	json_decref(row->manifest);
	free(row);
}

static void tell(const struct shared_images *s)
{
	if (s->fn)
		s->fn(s->arg);
}

/* Owns manifest. */
static void keep(struct shared_images *s, const char *id, json_t *record, json_t *manifest,
                 const struct node_image *image)
{
	struct row *row = find_row(s, id);

	if (row)
		drop_row(s, row);
	row = xnew0(struct row);
	(void)snprintf(row->id, sizeof(row->id), "%s", id);
	row->record = json_incref(record);
	row->manifest = manifest;
	row->image = *image;
	row->image.manifest = manifest;
	HASH_ADD_STR(s->rows, id, row);
}

int shared_images_apply(struct records *r, const char *id, const char *project_id, json_t *record,
                        bool is_gone, struct err *err)
{
	const char *text = json_string_value(json_object_get(record, "manifest"));
	struct node_image image = {.is_gone = is_gone};
	auto_json json_t *manifest = NULL;
	char expected[ID_SIZE];

	if (!text || json_parse(text, strlen(text), &manifest, err) < 0 ||
	    !json_is_object(manifest) || read_image(record, project_id, &image) < 0)
		return err_set(err, ERR_BAD_REQUEST, 0, "a template has another shape");
	record_id(image.project_id, image.name, expected);
	if (strcmp(id, expected) != 0)
		return err_set(err, ERR_BAD_REQUEST, 0, "a template has another's place");
	keep(r->images, id, record, take_ptr(manifest), &image);
	return 0;
}

void shared_images_drop_project(struct records *r, const char *project_id)
{
	struct row *row, *next;

	for (row = r->images->rows; row; row = next) {
		next = row->hh.next;
		if (strcmp(row->image.project_id, project_id) == 0)
			drop_row(r->images, row);
	}
}

void shared_images_look(struct records *r)
{
	tell(r->images);
}

void shared_images_forget(struct records *r)
{
	while (r->images->rows)
		drop_row(r->images, r->images->rows);
}

struct shared_images *shared_images_new(void)
{
	return xnew0(struct shared_images);
}

void shared_images_free(struct records *r)
{
	shared_images_forget(r);
	free(take_ptr(r->images));
}

const struct node_image *node_image_named(const struct node *n, const char *project_id,
                                          const char *name)
{
	char id[ID_SIZE];
	const struct row *row;

	if (!n)
		return NULL;
	record_id(project_id, name, id);
	row = find_row(n->records->images, id);
	return row ? &row->image : NULL;
}

const struct node_image *node_image_find(const struct node *n, const char *project_id,
                                         const char *word)
{
	const struct node_image *i = node_image_named(n, project_id, word);

	if (!i || i->is_gone)
		i = node_image_named(n, "", word);
	if (i && !i->is_gone)
		return i;
	for (const struct row *row = n ? n->records->images->rows : NULL; row; row = row->hh.next)
		if (!row->image.is_gone && strcmp(row->image.template_id, word) == 0 &&
		    (!row->image.project_id[0] || strcmp(row->image.project_id, project_id) == 0))
			return &row->image;
	return NULL;
}

bool node_image_was(const struct node_image *image, const char *template_id)
{
	const json_t *one;
	size_t i;

	json_array_foreach(image->was, i, one)
	{
		const char *was = json_string_value(one);

		if (was && strcmp(was, template_id) == 0)
			return true;
	}
	return false;
}

static int by_age(const struct row *a, const struct row *b)
{
	return (a->image.created_us > b->image.created_us) -
	       (a->image.created_us < b->image.created_us);
}

void node_each_image(const struct node *n, const char *project_id,
                     void (*fn)(const struct node_image *i, void *arg), void *arg)
{
	if (!n)
		return;
	HASH_SORT(n->records->images->rows, by_age);
	for (const struct row *row = n->records->images->rows; row; row = row->hh.next)
		if (!row->image.is_gone &&
		    (!row->image.project_id[0] || strcmp(row->image.project_id, project_id) == 0))
			fn(&row->image, arg);
}

bool node_knows_images(const struct node *n)
{
	return n && records_is_current(n->records);
}

void node_has_templates(struct node *n, void (*fn)(void *arg), void *arg)
{
	if (!n)
		return;
	n->records->images->fn = fn;
	n->records->images->arg = arg;
	fn(arg);
}

json_t *node_image_describe_parts(const struct node_image *i)
{
	json_t *parts = json_array();

	for (size_t k = 0; k < i->n_parts; k++) {
		char digest[DIGEST_HEX], seal[DIGEST_HEX];

		digest_to_hex(&i->parts[k].image, digest);
		digest_to_hex(&i->parts[k].seal, seal);
		(void)json_array_append_new(parts,
		                            json_pack("{ss ss sI}", "digest", digest, "seal", seal,
		                                      "bytes", (json_int_t)i->parts[k].bytes));
	}
	return parts;
}

struct publish_call {
	struct node *node;
	char id[ID_SIZE];
	json_t *record;
	char project_id[ID_SIZE];
	bool is_gone;
	node_answer_fn fn;
	void *arg;
};

/* What the others hear with their next beats holds here at once. */
static void on_published(const json_t *answer, const struct err *err, void *arg)
{
	struct publish_call *p = arg;
	struct records *r = p->node->records;
	struct row *row = find_row(r->images, p->id);

	if (!err && strcmp(node_result(answer), "ok") == 0) {
		if (p->is_gone && row)
			row->image.is_gone = true;
		else if (p->record)
			records_ask_changes(r); /* with those that were there before */
	}
	p->fn(answer, err, p->arg);
	json_decref(p->record);
	free(p);
}

static struct publish_call *publish_call_new(struct node *n, const char *project_id,
                                             const char *name, node_answer_fn fn, void *arg)
{
	struct publish_call *p = xnew0(struct publish_call);

	p->node = n;
	p->fn = fn;
	p->arg = arg;
	record_id(project_id, name, p->id);
	(void)snprintf(p->project_id, sizeof(p->project_id), "%s", project_of(project_id));
	return p;
}

static void on_too_long(struct loop *loop, void *arg)
{
	struct publish_call *p = arg;
	struct err err;

	(void)loop;
	(void)err_set(&err, ERR_TOO_LARGE, 0,
	              "its manifest is too large for the cluster's database: %d KiB are the most",
	              RECORD_MAX / 1024);
	p->fn(NULL, &err, p->arg);
	json_decref(p->record);
	free(p);
}

void node_publish_image(struct node *n, const struct node_image *i, const char *replaces,
                        node_answer_fn fn, void *arg)
{
	struct publish_call *p = publish_call_new(n, i->project_id, i->name, fn, arg);
	auto_json json_t *call = NULL;
	auto_free char *text = NULL, *manifest = json_dumps(i->manifest, JSON_COMPACT);

	/* As text: PostgreSQL writes a number of JSON out to its last digit, and an answer with one
	 * that is too large is none. */
	p->record = json_pack("{ss ss so sI sI sb ss}", "template_id", i->template_id, "name",
	                      i->name, "parts", node_image_describe_parts(i), "created_us",
	                      (json_int_t)i->created_us, "node", (json_int_t)node_number(n),
	                      "is_stored", i->is_stored, "manifest", manifest ? manifest : "{}");
	text = json_dumps(p->record, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (!text || strlen(text) > RECORD_MAX) {
		loop_defer(n->config.loop, on_too_long, p);
		return;
	}
	call = json_pack("{ss ss ss ss* sO}", "call", "publish_template", "id", p->id, "project_id",
	                 p->project_id, "replaces", replaces, "record", p->record);
	node_call(n, call, on_published, p);
}

void node_remove_image(struct node *n, const char *project_id, const char *name,
                       const char *template_id, node_answer_fn fn, void *arg)
{
	struct publish_call *p = publish_call_new(n, project_id, name, fn, arg);
	auto_json json_t *call = json_pack("{ss ss ss}", "call", "remove_template", "id", p->id,
	                                   "template_id", template_id);

	p->is_gone = true;
	node_call(n, call, on_published, p);
}

static void move_part(struct node *n, const char *what, const struct node_image *i, size_t part,
                      int fd, node_answer_fn fn, void *arg)
{
	char digest[DIGEST_HEX], seal[DIGEST_HEX], class[DIGEST_HEX];
	auto_json json_t *bases = json_array(), *call = NULL;
	struct digest whose;

	node_image_class(i->project_id, &whose);
	digest_to_hex(&whose, class);
	digest_to_hex(&i->parts[part].image, digest);
	digest_to_hex(&i->parts[part].seal, seal);
	for (size_t k = 0; part == i->n_parts - 1 && k < part; k++) {
		char base[DIGEST_HEX];

		digest_to_hex(&i->parts[k].image, base);
		(void)json_array_append_new(bases, json_string(base));
	}
	call = json_pack("{ss ss ss si ss sI ss ss sO}", "call", what, "project_id",
	                 project_of(i->project_id), "kind", "image", "generation", 0, "digest",
	                 digest, "bytes", (json_int_t)i->parts[part].bytes, "class", class, "seal",
	                 seal, "bases", bases);
	n->config.call_with_file(call, fd, fn, arg, n->config.link);
}

void node_put_part(struct node *n, const struct node_image *i, size_t part, int fd,
                   node_answer_fn fn, void *arg)
{
	move_part(n, "put_object", i, part, fd, fn, arg);
}

void node_get_part(struct node *n, const struct node_image *i, size_t part, int fd,
                   node_answer_fn fn, void *arg)
{
	move_part(n, "get_object", i, part, fd, fn, arg);
}
