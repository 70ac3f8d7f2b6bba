// SPDX-License-Identifier: Apache-2.0
#include "backup/content.h"

#include "backup/content_private.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <zstd.h>

#define LEVEL      1 /* streams are large: speed matters more than the last tenth */
#define CHUNK_PATH (7 + 3 + 64 + 1)

int content_failed(const struct content *c, int errnum, const char *what, struct err *err)
{
	bool is_full = errnum == ENOSPC || errnum == EDQUOT;

	return err_set(err, is_full ? ERR_DISK_FULL : ERR_INTERNAL, errnum, "cannot %s '%s'", what,
	               c->path);
}

static bool is_file_name(const char *path)
{
	size_t len = strlen(path);

	return len > 4 && strcmp(path + len - 4, ".tar") == 0;
}

static struct content *content_new(const char *path)
{
	struct content *c = xnew0(struct content);

	c->path = xstrdup(path);
	c->fd = c->lock_fd = -1;
	buf_init(&c->packed, ZSTD_COMPRESSBOUND(CHUNK_MAX) + MANIFEST_MAX);
	return c;
}

int content_create(const char *path, struct content **ret, struct err *err)
{
	auto_call(content_closep) struct content *c = content_new(path);
	struct stat st;
	bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
	int r = !is_dir && is_file_name(path) ? content_tar_open(c, /* is_new= */ true, err)
	                                      : content_dir_open(c, /* is_new= */ true, err);

	if (r < 0)
		return r;
	*ret = take_ptr(c);
	return 0;
}

int content_open(const char *path, struct content **ret, struct err *err)
{
	auto_call(content_closep) struct content *c = content_new(path);
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "there is no backup '%s'", path);
	r = S_ISDIR(st.st_mode) ? content_dir_open(c, /* is_new= */ false, err)
	                        : content_tar_open(c, /* is_new= */ false, err);
	if (r < 0)
		return r;
	*ret = take_ptr(c);
	return 0;
}

void content_close(struct content *c)
{
	struct known *k, *next;

	if (!c)
		return;
	if (c->ops)
		c->ops->close(c);
	HASH_ITER (hh, c->known, k, next) {
		HASH_DEL(c->known, k);
		free(k);
	}
	buf_done(&c->packed);
	free(c->path);
	free(c);
}

/* A digest is a good hash already: its first bytes are used. */
static unsigned hash_of(const struct digest *digest)
{
	unsigned value;

	memcpy(&value, digest->bytes, sizeof(value));
	return value;
}

bool content_knows(const struct content *c, const struct digest *digest)
{
	struct known *k = NULL;

	HASH_FIND_BYHASHVALUE(hh, c->known, digest, sizeof(*digest), hash_of(digest), k);
	return k;
}

void content_know(struct content *c, const struct digest *digest)
{
	struct known *k;

	if (content_knows(c, digest))
		return;
	k = xnew0(struct known);
	k->digest = *digest;
	HASH_ADD_BYHASHVALUE(hh, c->known, digest, sizeof(k->digest), hash_of(digest), k);
}

static void chunk_path(const struct digest *digest, char path[CHUNK_PATH])
{
	char hex[DIGEST_HEX];

	digest_to_hex(digest, hex);
	(void)snprintf(path, CHUNK_PATH, "chunks/%.2s/%s", hex, hex);
}

bool content_has(const struct content *c, const struct digest *digest)
{
	char path[CHUNK_PATH];

	chunk_path(digest, path);
	return content_knows(c, digest) && c->ops->has(c, path) == 1;
}

static int hash(const void *data, size_t len, struct digest *ret, struct err *err)
{
	return EVP_Digest(data, len, ret->bytes, NULL, EVP_sha256(), NULL) == 1
	               ? 0
	               : err_set(err, ERR_INTERNAL, 0, "there is no SHA-256");
}

static int check_room(const struct content *c, size_t len, struct err *err)
{
	struct statvfs disk;

	if (c->keep_free == 0 || fstatvfs(c->fd, &disk) < 0 ||
	    (uint64_t)disk.f_bavail * disk.f_frsize >= c->keep_free + len)
		return 0;
	(void)err_set(err, ERR_DISK_FULL, ENOSPC, "the backup would fill the daemon's own disk");
	return err_hint(err, "write it to another disk, or make room; --keep N removes older ones");
}

int content_put(struct content *c, const void *data, size_t len, struct digest *ret,
                struct err *err)
{
	char path[CHUNK_PATH], *room;
	size_t n;
	int r = hash(data, len, ret, err);

	if (r < 0 || content_has(c, ret))
		return r;
	buf_truncate(&c->packed, 0);
	r = buf_reserve(&c->packed, ZSTD_compressBound(len), &room);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "a piece of content is too large");
	n = ZSTD_compress(room, ZSTD_compressBound(len), data, len, LEVEL);
	if (ZSTD_isError(n))
		return err_set(err, ERR_INTERNAL, 0, "cannot compress: %s", ZSTD_getErrorName(n));
	r = check_room(c, n, err);
	if (r < 0)
		return r;
	chunk_path(ret, path);
	r = c->ops->add(c, path, room, n, err);
	if (r < 0)
		return r;
	c->added += n;
	content_know(c, ret);
	return 0;
}

static int damaged(const struct content *c, const char *path, struct err *err)
{
	(void)err_set(err, ERR_FILE_INVALID, 0,
	              "the backup '%s' is damaged: '%s' is not what it was", c->path, path);
	return err_hint(err,
	                "remove that file and make a backup: it copies again what is still there");
}

int content_get(struct content *c, const struct digest *digest, struct buf *out, struct err *err)
{
	char path[CHUNK_PATH], *room;
	struct digest found;
	size_t n;
	int r;

	chunk_path(digest, path);
	buf_truncate(&c->packed, 0);
	r = c->ops->read(c, path, &c->packed, err);
	if (r < 0)
		return r;
	buf_truncate(out, 0);
	r = buf_reserve(out, CHUNK_MAX, &room);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "a piece of content is too large");
	n = ZSTD_decompress(room, CHUNK_MAX, c->packed.data, c->packed.len);
	if (ZSTD_isError(n))
		return damaged(c, path, err);
	buf_commit(out, n);
	r = hash(room, n, &found, err);
	if (r == 0 && !digest_equal(&found, digest))
		r = damaged(c, path, err);
	return r;
}

uint64_t content_added(const struct content *c)
{
	return c->added;
}

void content_keep_free(struct content *c, uint64_t bytes)
{
	c->keep_free = bytes;
}

static bool is_manifest(const char *name, struct digest *ret)
{
	char hex[DIGEST_HEX];

	if (strlen(name) != MANIFEST_NAME || name[15] != 'Z' || name[16] != '-' ||
	    strcmp(name + MANIFEST_NAME - 5, ".json") != 0)
		return false;
	(void)snprintf(hex, sizeof(hex), "%.64s", name + 17);
	return digest_parse(hex, ret) == 0;
}

static void note_newest(const char *name, void *arg)
{
	struct digest digest;
	struct tm tm = {0};
	time_t *newest = arg;

	if (is_manifest(name, &digest) && strptime(name, "%Y%m%dT%H%M%SZ-", &tm))
		*newest = MAX(*newest, timegm(&tm));
}

/* Names sort by time, so a later backup gets a later second even if the clock went back. */
static time_t second_of(struct content *c, uint64_t at_us)
{
	time_t newest = 0;

	(void)!c->ops->list(c, note_newest, &newest, NULL);
	return MAX((time_t)(at_us / 1000000), newest + 1);
}

int content_commit(struct content *c, uint64_t at_us, const char *text, size_t len, struct err *err)
{
	const time_t at_s = second_of(c, at_us);
	char hex[DIGEST_HEX], when[32], path[160];
	struct digest digest;
	struct tm tm;
	int r = hash(text, len, &digest, err);

	if (r < 0)
		return r;
	digest_to_hex(&digest, hex);
	if (!gmtime_r(&at_s, &tm) || strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &tm) != 16)
		return err_set(err, ERR_INTERNAL, 0, "the clock is wrong");
	(void)snprintf(path, sizeof(path), "backups/%s-%s.json", when, hex);
	return c->ops->commit(c, path, text, len, err);
}

struct names {
	char **all;
	size_t n;
};

static void add_name(const char *name, void *arg)
{
	struct names *names = arg;
	struct digest digest;

	if (!is_manifest(name, &digest))
		return;
	names->all = xrealloc(names->all, (names->n + 1) * sizeof(*names->all));
	names->all[names->n++] = xstrdup(name);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int content_each(struct content *c, int (*fn)(const char *name, void *arg, struct err *err),
                 void *arg, struct err *err)
{
	struct names names = {0};
	int r = c->ops->list(c, add_name, &names, err);

	if (names.n > 0)
		qsort(names.all, names.n, sizeof(*names.all), by_name);
	for (size_t i = 0; r >= 0 && i < names.n; i++)
		r = fn(names.all[i], arg, err);
	for (size_t i = 0; i < names.n; i++)
		free(names.all[i]);
	free(names.all);
	return MIN(r, 0);
}

int content_read(struct content *c, const char *name, struct buf *out, struct err *err)
{
	struct digest digest, found;
	char path[160];
	int r;

	if (!is_manifest(name, &digest))
		return err_set(err, ERR_NOT_FOUND, ENOENT, "'%.80s' is no backup in '%s'", name,
		               c->path);
	(void)snprintf(path, sizeof(path), "backups/%s", name);
	buf_truncate(out, 0);
	r = c->ops->read(c, path, out, err);
	if (r == 0)
		r = hash(out->data, out->len, &found, err);
	if (r == 0 && !digest_equal(&found, &digest))
		r = damaged(c, path, err);
	return r;
}
