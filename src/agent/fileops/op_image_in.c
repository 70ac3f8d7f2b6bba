// SPDX-License-Identifier: Apache-2.0
/*
 * A root from outside: the tar of one, an OCI image layout or what `docker save` writes, each as
 * one tar stream. An image's manifest may be anywhere in such a stream. So the archive is unpacked
 * first, beside the target, and then looked at. The tar of a root is only moved to its place. Of an
 * image, the layers that its manifest names are put together. Where the host knows that it is a
 * root, nothing in it makes it an image. Where it was fetched from a registry, it is there as an
 * image layout; then path may have the files of its lowest layers already, over which the others
 * are unpacked.
 *
 * Nothing here is trusted, and nothing is at stake but this sandbox, which was made for it.
 */
#include "agent/archive/archive_reader.h"
#include "agent/archive/image_root.h"
#include "agent/fileops/files.h"
#include "base/fs/beneath.h"
#include "oci/oci.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>

#define ENTRIES_MAX 1000000 /* where the host names no limit */
#define BYTES_MAX   (UINT64_C(1) << 40)
#define REPLY_MAX   ((size_t)1 << 20)

struct inbox {
	int fd;         /* the archive's contents */
	int target_fd;  /* of images */
	size_t n_there; /* so many of the lowest layers are unpacked already */
	struct image_root_limits limits;
	struct image_root_figures figures; /* of the root */
	json_t *reply;
};

static int tell(const struct image_root_figures *f, struct err *err)
{
	const struct record record = {
		.kind = RECORD_COUNT, .count = f->entries, .bytes = f->bytes, .size = f->bytes};

	return files_send_record(&record, err);
}

/* A regular file of the archive. Links in it may lead to another of its files, as Docker's do. */
static int open_file(const struct inbox *in, const char *path, uint64_t *ret_bytes)
{
	auto_fd int fd = beneath_resolve(in->fd, path, O_RDONLY | O_NONBLOCK, RESOLVE_BENEATH);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	*ret_bytes = (uint64_t)st.st_size;
	return take_fd(&fd);
}

static bool has_file(const struct inbox *in, const char *path)
{
	uint64_t bytes;
	auto_fd int fd = open_file(in, path, &bytes);

	return fd >= 0;
}

/* want: its digest, or NULL. */
static int read_json(const struct inbox *in, const char *path, const struct digest *want,
                     json_t **ret, struct err *err)
{
	uint64_t bytes;
	auto_fd int fd = open_file(in, path, &bytes);
	auto_free char *text = NULL;
	struct digest have;
	ssize_t n;

	if (fd < 0)
		return oci_refuse(err, "'%.120s' is not in the archive", path);
	if (bytes > OCI_JSON_MAX)
		return oci_refuse(err, "'%.120s' is over %zu MiB", path, OCI_JSON_MAX >> 20);
	text = xcalloc(1, bytes + 1);
	n = read(fd, text, bytes);
	if (n < 0 || (uint64_t)n != bytes)
		return oci_refuse(err, "'%.120s' cannot be read", path);
	archive_reader_digest(text, bytes, &have);
	if (want && !digest_equal(want, &have))
		return oci_refuse(err, "'%.120s' is damaged: its digest is another", path);
	if (json_parse(text, bytes, ret, err) < 0)
		return err_prefix(err, "image: '%.80s'", path);
	return 0;
}

static void blob_path(const struct digest *digest, char ret[96])
{
	char hex[DIGEST_HEX];

	digest_to_hex(digest, hex);
	(void)snprintf(ret, 96, "blobs/sha256/%s", hex);
}

static int read_blob(const struct inbox *in, const struct oci_blob *blob, json_t **ret,
                     struct err *err)
{
	char path[96];

	blob_path(&blob->digest, path);
	return read_json(in, path, &blob->digest, ret, err);
}

/* The lowest n layers, as OCI's ChainID names them together. */
static json_t *name_chain(const struct oci_config *config, size_t n)
{
	char chain[DIGEST_HEX], next[DIGEST_HEX];

	digest_to_hex(&config->diff_ids[0], chain);
	for (size_t i = 1; i < n; i++) {
		auto_free char *text = NULL;
		struct digest digest;

		digest_to_hex(&config->diff_ids[i], next);
		text = xasprintf("sha256:%s sha256:%s", chain, next);
		archive_reader_digest(text, strlen(text), &digest);
		digest_to_hex(&digest, chain);
	}
	return json_string(chain);
}

static int tell_chains(struct inbox *in, const struct oci_config *config, struct err *err)
{
	if (in->n_there > config->n_diff_ids)
		return oci_refuse(err, "it has fewer layers than are here of it");
	if (config->n_diff_ids > 0)
		(void)json_object_set_new(in->reply, "chain",
		                          name_chain(config, config->n_diff_ids));
	if (in->n_there > 0)
		(void)json_object_set_new(in->reply, "over", name_chain(config, in->n_there));
	return 0;
}

/* What the image says of itself is part of the answer. */
static int use_config(struct inbox *in, const json_t *json, size_t n_layers, struct oci_config *ret,
                      struct err *err)
{
	int r = oci_read_config(json, oci_arch(), ret, err);

	if (r < 0)
		return r;
	if (ret->n_diff_ids != n_layers)
		return oci_refuse(err, "the config knows %zu layers, the manifest %zu",
		                  ret->n_diff_ids, n_layers);
	(void)json_object_set(in->reply, "defaults", ret->defaults);
	(void)json_object_set_new(in->reply, "layers", json_integer((json_int_t)n_layers));
	if (ret->label)
		(void)json_object_set_new(in->reply, "template", json_string(ret->label));
	return tell_chains(in, ret, err);
}

/* bytes and raw as of struct image_root_layer. */
static int add_layer(const struct inbox *in, struct root *root, const char *path, uint64_t bytes,
                     const struct digest *raw, const struct digest *diff_id, struct err *err)
{
	uint64_t have;
	auto_fd int fd = open_file(in, path, &have);
	const struct image_root_layer layer = {
		.fd = fd, .bytes = bytes, .raw = raw, .diff_id = diff_id};

	if (fd < 0)
		return oci_refuse(err, "the layer '%.120s' is not in the archive", path);
	return image_root_add_layer(root, &layer, err);
}

static int add_layers(const struct inbox *in, struct root *root, const struct oci_manifest *m,
                      const struct oci_config *config, struct err *err)
{
	int r = 0;

	for (size_t i = in->n_there; r == 0 && i < m->n_layers; i++) {
		char path[96];

		blob_path(&m->layers[i].digest, path);
		r = add_layer(in, root, path, m->layers[i].bytes, &m->layers[i].digest,
		              &config->diff_ids[i], err);
	}
	return r;
}

/* From index to index to the manifest. */
static int find_manifest(const struct inbox *in, const char *ref, json_t **ret, struct err *err)
{
	struct oci_wish wish = {.arch = oci_arch(), .ref = ref};
	auto_json json_t *json = NULL;
	int r = read_json(in, "index.json", NULL, &json, err);

	for (size_t depth = 0; r == 0; depth++) {
		struct oci_blob blob;

		if (depth == OCI_NESTING_MAX)
			return oci_refuse(err, "indexes are nested deeper than %d",
			                  OCI_NESTING_MAX);
		r = oci_choose(json, &wish, &blob, err);
		json_decref(take_ptr(json));
		if (r == 0)
			r = read_blob(in, &blob, &json, err);
		if (r == 0 && !blob.is_index) {
			*ret = take_ptr(json);
			return 0;
		}
		wish.ref = NULL; /* it named the outermost */
	}
	return r;
}

static int unpack_layout(struct inbox *in, const char *ref, struct root *root, struct err *err)
{
	auto_call(oci_manifest_done) struct oci_manifest m = {0};
	auto_call(oci_config_done) struct oci_config config = {0};
	auto_json json_t *manifest = NULL, *json = NULL;
	int r = find_manifest(in, ref, &manifest, err);

	if (r == 0)
		r = oci_read_manifest(manifest, &m, err);
	if (r == 0)
		r = read_blob(in, &m.config, &json, err);
	if (r == 0)
		r = use_config(in, json, m.n_layers, &config, err);
	return r < 0 ? r : add_layers(in, root, &m, &config, err);
}

static int unpack_saved(struct inbox *in, const char *ref, struct root *root, struct err *err)
{
	auto_call(oci_saved_done) struct oci_saved saved = {0};
	auto_call(oci_config_done) struct oci_config config = {0};
	auto_json json_t *manifest = NULL, *json = NULL;
	int r = read_json(in, "manifest.json", NULL, &manifest, err);

	if (r == 0)
		r = oci_choose_saved(manifest, ref, &saved, err);
	if (r == 0)
		r = read_json(in, saved.config, NULL, &json, err);
	if (r == 0)
		r = use_config(in, json, saved.n_layers, &config, err);
	for (size_t i = 0; r == 0 && i < saved.n_layers; i++)
		r = add_layer(in, root, saved.layers[i], 0, NULL, &config.diff_ids[i], err);
	return r;
}

static int unpack_image(struct inbox *in, const struct start *s, bool is_layout, struct err *err)
{
	auto_call(image_root_freep) struct root *root = NULL;
	int r;

	if (mkdir(s->path, 0755) < 0 && (errno != EEXIST || in->n_there == 0))
		return result_error(err, errno, "cannot make", s->path);
	in->target_fd = open(s->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (in->target_fd < 0)
		return result_error(err, errno, "cannot open", s->path);
	root = image_root_new(in->target_fd, &in->limits, tell);
	(void)json_object_set_new(in->reply, "kind", json_string(is_layout ? "oci" : "docker"));
	r = is_layout ? unpack_layout(in, s->path2, root, err)
	              : unpack_saved(in, s->path2, root, err);
	image_root_finish(root);
	in->figures = *image_root_figures(root);
	return r;
}

static bool looks_like_root(const struct inbox *in)
{
	static const char *const names[] = {"usr", "bin", "etc", "sbin", "lib"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (faccessat(in->fd, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	return false;
}

static int take_root(struct inbox *in, const char *from, const char *to, struct err *err)
{
	if (!looks_like_root(in))
		return oci_refuse(err, "it is neither an OCI image layout nor of docker save, and "
		                       "no root: there is no usr, bin or etc in it");
	(void)json_object_set_new(in->reply, "kind", json_string("root"));
	return rename(from, to) < 0 ? result_error(err, errno, "cannot make", to) : 0;
}

static int receive(struct inbox *in, struct err *err)
{
	auto_call(image_root_freep) struct root *root = image_root_new(in->fd, &in->limits, tell);
	int r = image_root_unpack(root, STDIN_FILENO, err);

	image_root_finish(root);
	in->figures = *image_root_figures(root);
	return r;
}

static int send_reply(struct inbox *in, struct err *err)
{
	const struct image_root_figures *f = &in->figures;
	auto_free char *text = NULL;
	int r = tell(f, err);

	if (r < 0)
		return r;
	(void)json_object_set_new(in->reply, "entries", json_integer((json_int_t)f->entries));
	(void)json_object_set_new(in->reply, "bytes", json_integer((json_int_t)f->bytes));
	(void)json_object_set_new(in->reply, "left_out", json_integer((json_int_t)f->left_out));
	(void)json_object_set_new(in->reply, "owners_changed",
	                          json_integer((json_int_t)f->owners_changed));
	(void)json_object_set_new(in->reply, "newest_s",
	                          json_integer((json_int_t)MIN(f->newest_s, (uint64_t)INT64_MAX)));
	text = json_dumps(in->reply, JSON_COMPACT);
	if (!text || strlen(text) > REPLY_MAX)
		return oci_refuse(err, "its config is over %zu KiB", REPLY_MAX >> 10);
	return result_send(text, strlen(text), err);
}

static void inbox_done(struct inbox *in)
{
	if (in->fd >= 0)
		(void)close(in->fd);
	if (in->target_fd >= 0)
		(void)close(in->target_fd);
	json_decref(in->reply);
}

int op_image_in(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	auto_call(inbox_done) struct inbox in = {
		.fd = -1,
		.target_fd = -1,
		.n_there = s->flags & FILE_FETCHED ? s->depth : 0,
		.limits = {.entries = s->limit ? s->limit : ENTRIES_MAX,
	                   .bytes = s->size ? s->size : BYTES_MAX},
		.reply = json_object()};
	auto_free char *beside = xasprintf("%s.in", s->path);
	int r;

	if (!(s->flags & FILE_FETCHED) && mkdir(beside, 0755) < 0)
		return result_error(err, errno, "cannot make", beside);
	in.fd = open(beside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (in.fd < 0)
		return result_error(err, errno, "cannot open", beside);
	r = s->flags & FILE_FETCHED ? 0 : receive(&in, err);
	if (r < 0)
		return r;
	if (s->flags & FILE_FETCHED)
		r = unpack_image(&in, s, /* is_layout= */ true, err);
	else if (s->flags & FILE_BARE)
		r = rename(beside, s->path) < 0 ? result_error(err, errno, "cannot make", s->path)
		                                : 0;
	else if (has_file(&in, "oci-layout") && has_file(&in, "index.json"))
		r = unpack_image(&in, s, /* is_layout= */ true, err);
	else if (has_file(&in, "manifest.json") && !looks_like_root(&in))
		r = unpack_image(&in, s, /* is_layout= */ false, err);
	else
		r = take_root(&in, beside, s->path, err);
	return r < 0 ? r : send_reply(&in, err);
}
