// SPDX-License-Identifier: Apache-2.0
#define OPENSSL_SUPPRESS_DEPRECATED
#include "agent/archive/image_layer.h"

#include "agent/archive/compress.h"
#include "agent/archive/result.h"
#include "base/fd.h"
#include "base/fs/walk.h"
#include "tar/tar.h"

#include <fcntl.h>
#include <limits.h>
#include <openssl/sha.h>
#include <string.h>
#include <uthash.h>

#define CHUNK (128 * 1024)

/* A file of several names, by the first of them. */
struct twin {
	struct {
		dev_t dev;
		ino_t ino;
	} key;
	char *path;
	UT_hash_handle hh;
};

struct layer {
	int out_fd;
	struct compress *compress; /* NULL: it is sent as it is */
	SHA256_CTX raw, plain;
	uint64_t bytes;
	struct twin *twins;
	char *chunk;
};

static int on_compressed(const void *data, size_t len, void *arg, struct err *err)
{
	struct layer *l = arg;
	int r = fd_write_all(l->out_fd, data, len);

	if (r < 0)
		return err_set(err, ERR_FILE_INVALID, -r, "cannot write the layer");
	(void)SHA256_Update(&l->raw, data, len);
	l->bytes += len;
	return 0;
}

static int put(struct layer *l, const void *data, size_t len, struct err *err)
{
	if (!l->compress)
		return len > 0 ? result_send(data, len, err) : 0;
	(void)SHA256_Update(&l->plain, data, len);
	return compress_feed(l->compress, data, len, err);
}

static int put_head(struct layer *l, const struct tar_entry *e, struct err *err)
{
	auto_call(buf_done) struct buf head = BUF_INIT(TAR_HEAD_MAX);
	int r = tar_put_head(&head, e);

	if (r < 0)
		return err_set(err, ERR_FILE_INVALID, -r, "cannot describe '%.150s'", e->path);
	return put(l, head.data, head.len, err);
}

static struct tar_entry describe(const char *path, enum tar_kind kind, const struct stat *st)
{
	return (struct tar_entry){.kind = kind,
	                          .path = path,
	                          .mode = st->st_mode & 07777,
	                          .uid = st->st_uid,
	                          .gid = st->st_gid,
	                          .size = kind == TAR_FILE ? (uint64_t)st->st_size : 0,
	                          .mtime_s = (uint64_t)MAX(st->st_mtim.tv_sec, (time_t)0),
	                          .mtime_ns = (uint32_t)st->st_mtim.tv_nsec};
}

static int put_data(struct layer *l, const struct walk_entry *w, struct err *err)
{
	static const char zeros[TAR_BLOCK];
	auto_fd int fd = openat(w->dir_fd, w->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	uint64_t left = (uint64_t)w->st.st_size;

	if (fd < 0)
		return err_set(err, ERR_FILE_INVALID, errno, "cannot read '%.150s'", w->path);
	while (left > 0) {
		ssize_t n = read(fd, l->chunk, (size_t)MIN(left, (uint64_t)CHUNK));
		int r;

		if (n <= 0)
			return err_set(err, ERR_FILE_INVALID, n < 0 ? errno : EIO,
			               "cannot read '%.150s'", w->path);
		r = put(l, l->chunk, (size_t)n, err);
		if (r < 0)
			return r;
		left -= (uint64_t)n;
	}
	return put(l, zeros, tar_padding((uint64_t)w->st.st_size), err);
}

/* The first name of the same file, or NULL: then this is it. */
static const char *find_twin(struct layer *l, const struct walk_entry *w)
{
	struct twin *t, key = {0};

	if (w->st.st_nlink < 2)
		return NULL;
	key.key.dev = w->st.st_dev;
	key.key.ino = w->st.st_ino;
	HASH_FIND(hh, l->twins, &key.key, sizeof(key.key), t);
	if (t)
		return t->path;
	t = xnew0(struct twin);
	t->key = key.key;
	t->path = xstrdup(w->path);
	HASH_ADD(hh, l->twins, key, sizeof(t->key), t);
	return NULL;
}

static int put_file(struct layer *l, const struct walk_entry *w, struct err *err)
{
	const char *twin = find_twin(l, w);
	struct tar_entry e = describe(w->path, twin ? TAR_HARDLINK : TAR_FILE, &w->st);
	int r;

	e.target = twin;
	r = put_head(l, &e, err);
	return r < 0 || twin ? r : put_data(l, w, err);
}

static int put_entry(struct layer *l, const struct walk_entry *w, struct err *err)
{
	char target[PATH_MAX];
	struct tar_entry e;
	ssize_t n;

	if (S_ISREG(w->st.st_mode))
		return put_file(l, w, err);
	if (S_ISDIR(w->st.st_mode)) {
		auto_free char *path = xasprintf("%s/", w->path);

		e = describe(path, TAR_DIR, &w->st);
		return put_head(l, &e, err);
	}
	if (!S_ISLNK(w->st.st_mode))
		return 0;
	n = readlinkat(w->dir_fd, w->name, target, sizeof(target) - 1);
	if (n < 0)
		return err_set(err, ERR_FILE_INVALID, errno, "cannot read the link '%.150s'",
		               w->path);
	target[n] = '\0';
	e = describe(w->path, TAR_SYMLINK, &w->st);
	e.target = target;
	return put_head(l, &e, err);
}

/* The first of what engine/template/image_build_child.c leaves out: there can be as much of it as
 * of the rest.
 */
static bool is_passing(const char *path)
{
	static const char *const dirs[] = {"dev", "proc", "sys", "run", "tmp", "var/tmp"};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (strcmp(path, dirs[i]) == 0)
			return true;
	return false;
}

static int put_all(struct layer *l, int root_fd, const struct stat *st, struct err *err)
{
	auto_call(walk_freep) struct walk *walk = NULL;
	auto_call(buf_done) struct buf end = BUF_INIT(2 * TAR_BLOCK);
	const struct tar_entry root = describe("./", TAR_DIR, st);
	struct walk_entry w;
	int r = walk_new(root_fd, /* is_lenient= */ false, &walk, err);

	if (r >= 0)
		r = put_head(l, &root, err);
	while (r >= 0 && (r = walk_next(walk, &w, err)) > 0) {
		if (w.is_leaving)
			continue;
		r = put_entry(l, &w, err);
		if (!l->compress && S_ISDIR(w.st.st_mode) && is_passing(w.path))
			walk_prune(walk);
	}
	if (r >= 0 && tar_put_end(&end) >= 0)
		r = put(l, end.data, end.len, err);
	return r < 0 || !l->compress ? r : compress_finish(l->compress, err);
}

static void layer_done(struct layer *l)
{
	struct twin *t, *next;

	compress_free(l->compress);
	free(l->chunk);
	for (t = l->twins; t; t = next) {
		next = t->hh.next;
		HASH_DEL(l->twins, t);
		free(t->path);
		free(t);
	}
}

int image_layer_make(int root_fd, int out_fd, struct image_layer_made *ret, struct err *err)
{
	auto_call(layer_done) struct layer l = {.out_fd = out_fd, .chunk = xcalloc(1, CHUNK)};
	struct stat st;
	int r;

	(void)SHA256_Init(&l.raw);
	(void)SHA256_Init(&l.plain);
	if (fstat(root_fd, &st) < 0)
		r = err_set(err, ERR_FILE_INVALID, errno, "cannot stat the root");
	else
		r = compress_new(COMPRESS_ZSTD, on_compressed, &l, &l.compress, err);
	if (r < 0) {
		(void)close(root_fd);
		return r;
	}
	r = put_all(&l, root_fd, &st, err);
	if (r < 0)
		return r;
	ret->bytes = l.bytes;
	(void)SHA256_Final(ret->raw.bytes, &l.raw);
	(void)SHA256_Final(ret->diff_id.bytes, &l.plain);
	return 0;
}

int image_layer_send(int root_fd, struct err *err)
{
	auto_call(layer_done) struct layer l = {.out_fd = -1, .chunk = xcalloc(1, CHUNK)};
	struct stat st;
	int r;

	if (fstat(root_fd, &st) == 0)
		return put_all(&l, root_fd, &st, err);
	r = err_set(err, ERR_FILE_INVALID, errno, "cannot stat the root");
	(void)close(root_fd);
	return r;
}
