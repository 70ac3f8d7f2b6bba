// SPDX-License-Identifier: Apache-2.0
/*
 * A root as an OCI image layout, one tar: what any container engine loads, and op_image_in.c takes
 * back. A tar tells a file's length before the file, so the layer lies on the sandbox's disk until
 * it is whole; the rest is made in memory. The config is the host's, to which we add what only we
 * know: the architecture and the layer's digest.
 */
#include "agent/archive/archive_reader.h"
#include "agent/archive/image_layer.h"
#include "agent/fileops/files.h"
#include "base/fd.h"
#include "base/fs/beneath.h"
#include "oci/oci.h"
#include "tar/tar.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define INPUT_MAX     ((size_t)2 << 20)
#define CHUNK         (128 * 1024)
#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define INDEX_TYPE    "application/vnd.oci.image.index.v1+json"
#define CONFIG_TYPE   "application/vnd.oci.image.config.v1+json"
#define LAYER_TYPE    "application/vnd.oci.image.layer.v1.tar+zstd"

/* A file of the archive that is in memory. */
struct part {
	char path[96];
	char *text;
	size_t len;
	struct digest digest;
};

enum { PART_LAYOUT, PART_INDEX, PART_MANIFEST, PART_CONFIG, PART_COUNT };

struct outbox {
	struct part parts[PART_COUNT];
	char layer_path[96];
	struct image_layer_made layer;
	int layer_fd;
};

static void outbox_done(struct outbox *out)
{
	for (size_t i = 0; i < PART_COUNT; i++)
		free(out->parts[i].text);
	if (out->layer_fd >= 0)
		(void)close(out->layer_fd);
}

static int read_input(json_t **ret, struct err *err)
{
	auto_call(buf_done) struct buf text = BUF_INIT(INPUT_MAX);

	for (;;) {
		char *room;
		ssize_t n;

		if (buf_reserve(&text, MIN((size_t)CHUNK, buf_room(&text)), &room) < 0)
			return err_set(err, ERR_TOO_LARGE, E2BIG, "the image's config");
		n = read(STDIN_FILENO, room, MIN((size_t)CHUNK, buf_room(&text)));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot read the image's config");
		if (n == 0)
			return json_parse(buf_str(&text), text.len, ret, err);
		buf_commit(&text, (size_t)n);
	}
}

static void blob_path(const struct digest *digest, char ret[96])
{
	char hex[DIGEST_HEX];

	digest_to_hex(digest, hex);
	(void)snprintf(ret, 96, "blobs/sha256/%s", hex);
}

static json_t *digest_text(const struct digest *digest)
{
	char hex[DIGEST_HEX];

	digest_to_hex(digest, hex);
	return json_sprintf("sha256:%s", hex);
}

/* path NULL: it is a blob. */
static void set_part(struct part *p, const char *path, const json_t *value)
{
	p->text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
	if (!p->text)
		abort(); /* a value of our own making */
	p->len = strlen(p->text);
	archive_reader_digest(p->text, p->len, &p->digest);
	if (path)
		(void)snprintf(p->path, sizeof(p->path), "%s", path);
	else
		blob_path(&p->digest, p->path);
}

static json_t *describe(const char *type, const struct digest *digest, uint64_t bytes)
{
	return json_pack("{sssosI}", "mediaType", type, "digest", digest_text(digest), "size",
	                 (json_int_t)bytes);
}

/* {name, config}: the config is an OCI image config without what is added here. */
static int make_parts(struct outbox *out, const json_t *input, struct err *err)
{
	const char *name = oci_text(input, "name");
	json_t *config = json_object_get(input, "config");
	auto_json json_t *layout = json_pack("{ss}", "imageLayoutVersion", "1.0.0");
	auto_json json_t *manifest = NULL, *index = NULL;
	json_t *one;

	if (!json_is_object(config))
		return err_set(err, ERR_INTERNAL, EINVAL, "there is no config");
	(void)json_object_set_new(config, "architecture", json_string(oci_arch()));
	(void)json_object_set_new(config, "os", json_string("linux"));
	(void)json_object_set_new(config, "rootfs",
	                          json_pack("{sss[o]}", "type", "layers", "diff_ids",
	                                    digest_text(&out->layer.diff_id)));
	set_part(&out->parts[PART_CONFIG], NULL, config);
	manifest = json_pack(
		"{sisssos[o]}", "schemaVersion", 2, "mediaType", MANIFEST_TYPE, "config",
		describe(CONFIG_TYPE, &out->parts[PART_CONFIG].digest, out->parts[PART_CONFIG].len),
		"layers", describe(LAYER_TYPE, &out->layer.raw, out->layer.bytes));
	set_part(&out->parts[PART_MANIFEST], NULL, manifest);
	one = describe(MANIFEST_TYPE, &out->parts[PART_MANIFEST].digest,
	               out->parts[PART_MANIFEST].len);
	(void)json_object_set_new(one, "platform",
	                          json_pack("{ssss}", "os", "linux", "architecture", oci_arch()));
	(void)json_object_set_new(one, "annotations",
	                          json_pack("{ss}", "org.opencontainers.image.ref.name", name));
	index = json_pack("{sisss[o]}", "schemaVersion", 2, "mediaType", INDEX_TYPE, "manifests",
	                  one);
	set_part(&out->parts[PART_INDEX], "index.json", index);
	set_part(&out->parts[PART_LAYOUT], "oci-layout", layout);
	blob_path(&out->layer.raw, out->layer_path);
	return 0;
}

static int send_head(const char *path, uint64_t size, struct err *err)
{
	auto_call(buf_done) struct buf head = BUF_INIT(TAR_HEAD_MAX);
	const struct tar_entry e = {.kind = TAR_FILE, .path = path, .mode = 0644, .size = size};

	if (tar_put_head(&head, &e) < 0)
		return err_set(err, ERR_INTERNAL, EINVAL, "cannot describe '%s'", path);
	return result_send(head.data, head.len, err);
}

static int send_padding(uint64_t size, struct err *err)
{
	static const char zeros[TAR_BLOCK];
	size_t n = tar_padding(size);

	return n > 0 ? result_send(zeros, n, err) : 0;
}

static int send_layer(const struct outbox *out, struct err *err)
{
	auto_free char *chunk = xcalloc(1, CHUNK);
	uint64_t left = out->layer.bytes;
	int r = send_head(out->layer_path, left, err);

	if (r == 0 && lseek(out->layer_fd, 0, SEEK_SET) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot read the layer again");
	while (r == 0 && left > 0) {
		ssize_t n = read(out->layer_fd, chunk, (size_t)MIN(left, (uint64_t)CHUNK));

		if (n <= 0)
			return err_set(err, ERR_INTERNAL, n < 0 ? errno : EIO,
			               "cannot read the layer again");
		r = result_send(chunk, (size_t)n, err);
		left -= (uint64_t)n;
	}
	return r == 0 ? send_padding(out->layer.bytes, err) : r;
}

static uint64_t padded(uint64_t size)
{
	return TAR_BLOCK + size + tar_padding(size);
}

static int send_all(const struct outbox *out, struct err *err)
{
	auto_call(buf_done) struct buf end = BUF_INIT(2 * TAR_BLOCK);
	struct record length = {.kind = RECORD_COUNT, .count = PART_COUNT + 1};
	int r;

	length.bytes = padded(out->layer.bytes) + 2 * TAR_BLOCK;
	for (size_t i = 0; i < PART_COUNT; i++)
		length.bytes += padded(out->parts[i].len);
	length.size = length.bytes;
	r = files_send_record(&length, err);
	for (size_t i = 0; r == 0 && i < PART_COUNT; i++) {
		const struct part *p = &out->parts[i];

		r = send_head(p->path, p->len, err);
		if (r == 0)
			r = result_send(p->text, p->len, err);
		if (r == 0)
			r = send_padding(p->len, err);
	}
	if (r == 0)
		r = send_layer(out, err);
	if (r == 0 && tar_put_end(&end) >= 0)
		r = result_send(end.data, end.len, err);
	return r;
}

static int send_bare(const struct start *s, struct err *err)
{
	int root_fd = open(s->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int fd;

	if (root_fd < 0)
		return result_error(err, errno, "cannot open", s->path);
	if (!s->path2[0])
		return image_layer_send(root_fd, err);
	fd = beneath_open(root_fd, s->path2, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	(void)close(root_fd);
	if (fd >= 0)
		return image_layer_send(fd, err);
	return err_set(err, ERR_FILE_NOT_FOUND, ENOENT, "the sandbox has no directory /%s to seal",
	               s->path2);
}

int op_image_out(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	auto_call(outbox_done) struct outbox out = {.layer_fd = -1};
	auto_json json_t *input = NULL;
	int root_fd, r;

	if (s->flags & FILE_BARE)
		return send_bare(s, err);
	r = read_input(&input, err);
	if (r < 0)
		return r;
	root_fd = open(s->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root_fd < 0)
		return result_error(err, errno, "cannot open", s->path);
	out.layer_fd = open(s->path2, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out.layer_fd < 0) {
		r = result_error(err, errno, "cannot make", s->path2);
		(void)close(root_fd);
		return r;
	}
	(void)unlink(s->path2); /* it goes with us */
	r = image_layer_make(root_fd, out.layer_fd, &out.layer, err);
	if (r == 0)
		r = make_parts(&out, input, err);
	return r == 0 ? send_all(&out, err) : r;
}
