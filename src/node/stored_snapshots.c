// SPDX-License-Identifier: Apache-2.0
#include "node/stored_snapshots.h"

#include "node/node_private.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define BYTES_MAX (INT64_C(1) << 40)

void node_snapshot_class(const struct node_snapshot *s, struct digest *ret)
{
	auto_free char *text =
		xasprintf("cloche snapshot %s %s %s", s->project_id, s->source_id, s->id);

	if (EVP_Digest(text, strlen(text), ret->bytes, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* no memory */
}

static json_t *describe(const struct node_snapshot *s)
{
	char digest[DIGEST_HEX], seal[DIGEST_HEX];

	digest_to_hex(&s->digest, digest);
	digest_to_hex(&s->seal, seal);
	return json_pack("{sI s{ss ss sI} s{sb so}}", "generation", (json_int_t)s->generation,
	                 "files", "digest", digest, "seal", seal, "bytes", (json_int_t)s->bytes,
	                 "image", "shared", s->image.project_id[0] == '\0', "parts",
	                 node_image_describe_parts(&s->image));
}

void node_publish_snapshot(struct node *n, const struct node_snapshot *s, node_answer_fn fn,
                           void *arg)
{
	auto_json json_t *call =
		json_pack("{ss ss ss ss sI so}", "call", "publish_snapshot", "id", s->id,
	                  "project_id", s->project_id, "source_id", s->source_id, "expires_us",
	                  (json_int_t)s->expires_us, "record", describe(s));

	node_call(n, call, fn, arg);
}

void node_remove_snapshot(struct node *n, const char *project_id, const char *id, node_answer_fn fn,
                          void *arg)
{
	auto_json json_t *call = json_pack("{ss ss ss}", "call", "remove_snapshot", "id", id,
	                                   "project_id", project_id);

	node_call(n, call, fn, arg);
}

void node_seen_snapshots(struct node *n, json_t *ids, node_answer_fn fn, void *arg)
{
	auto_json json_t *call = json_pack("{ss sO}", "call", "seen_snapshots", "ids", ids);

	node_call(n, call, fn, arg);
}

void node_find_snapshot(struct node *n, const char *id, node_answer_fn fn, void *arg)
{
	auto_json json_t *call = json_pack("{ss ss}", "call", "snapshot_of", "id", id);

	node_call(n, call, fn, arg);
}

static int read_files(const json_t *files, struct node_snapshot *ret)
{
	const char *digest = json_string_value(json_object_get(files, "digest"));
	const char *seal = json_string_value(json_object_get(files, "seal"));
	const json_int_t bytes = json_integer_value(json_object_get(files, "bytes"));

	if (!digest || !seal || digest_parse(digest, &ret->digest) < 0 ||
	    digest_parse(seal, &ret->seal) < 0 || bytes <= 0 || bytes > BYTES_MAX)
		return -EPROTO;
	ret->bytes = (uint64_t)bytes;
	return 0;
}

static int read_row(const json_t *row, struct node_snapshot *ret)
{
	const json_t *record = json_object_get(row, "record");
	const json_t *image = json_object_get(record, "image");
	const char *source = json_string_value(json_object_get(row, "source_id"));
	const json_int_t generation = json_integer_value(json_object_get(record, "generation"));
	const json_int_t node = json_integer_value(json_object_get(row, "node"));
	const json_int_t expires = json_integer_value(json_object_get(row, "expires_us"));

	if (!source || !id_is_valid(source, "sb") || generation < 0 || node <= 0 ||
	    node > INT32_MAX || expires < 0 ||
	    read_files(json_object_get(record, "files"), ret) < 0 ||
	    node_image_read_parts(json_object_get(image, "parts"), &ret->image) < 0)
		return -EPROTO;
	(void)snprintf(ret->source_id, ID_SIZE, "%s", source);
	if (!json_is_true(json_object_get(image, "shared")))
		(void)snprintf(ret->image.project_id, ID_SIZE, "%s", ret->project_id);
	ret->generation = (uint64_t)generation;
	ret->expires_us = (uint64_t)expires;
	ret->node = (uint32_t)node;
	ret->image.is_stored = true;
	return 0;
}

int node_read_snapshot(const json_t *answer, const char *project_id, const char *id,
                       struct node_snapshot *ret, struct err *err)
{
	const json_t *row = json_object_get(answer, "snapshot");
	const char *project = json_string_value(json_object_get(row, "project_id"));

	*ret = (struct node_snapshot){0};
	if (!project || strcmp(project, project_id) != 0) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "there is no snapshot '%.64s'", id);
		return err_hint(err, "`cloche snapshot ls` lists them");
	}
	(void)snprintf(ret->id, ID_SIZE, "%s", id);
	(void)snprintf(ret->project_id, ID_SIZE, "%s", project_id);
	if (read_row(row, ret) < 0)
		return err_set(err, ERR_CONFLICT, 0,
		               "the snapshot's row in the database has another "
		               "shape");
	return 0;
}

static void move(struct node *n, const char *what, const struct node_snapshot *s, int fd,
                 node_answer_fn fn, void *arg)
{
	char digest[DIGEST_HEX], seal[DIGEST_HEX], class[DIGEST_HEX];
	auto_json json_t *call = NULL;
	struct digest whose;

	node_snapshot_class(s, &whose);
	digest_to_hex(&whose, class);
	digest_to_hex(&s->digest, digest);
	digest_to_hex(&s->seal, seal);
	call = json_pack("{ss ss ss sI ss sI ss ss s[]}", "call", what, "project_id", s->project_id,
	                 "kind", "files", "generation", (json_int_t)s->generation, "digest", digest,
	                 "bytes", (json_int_t)s->bytes, "class", class, "seal", seal, "bases");
	n->config.call_with_file(call, fd, fn, arg, n->config.link);
}

void node_put_snapshot(struct node *n, const struct node_snapshot *s, int fd, node_answer_fn fn,
                       void *arg)
{
	move(n, "put_object", s, fd, fn, arg);
}

void node_get_snapshot(struct node *n, const struct node_snapshot *s, int fd, node_answer_fn fn,
                       void *arg)
{
	move(n, "get_object", s, fd, fn, arg);
}
