// SPDX-License-Identifier: Apache-2.0
/*
 * What differs between the snapshots that are shown, as a bundle. It has the files of the second
 * one, and the names that the second one lacks. A path that the third one has changed, too, is left
 * out unless it is asked for. Hard links to one file stay together if all of them have changed.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "agent/archive/tree_compare.h"
#include "agent/fileops/files.h"
#include "base/fd.h"
#include "proto/bundle.h"

#include <fcntl.h>
#include <limits.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/xattr.h>
#include <uthash.h>

struct twin { /* a file of several names, by the first of them */
	struct {
		dev_t dev;
		ino_t ino;
	} key;
	char *path;
	UT_hash_handle hh;
};

struct bundling {
	const struct start *start;
	SHA256_CTX hash;
	struct buf out;
	struct twin *twins;
	char *chunk;
};

static void bundling_done(struct bundling *b)
{
	struct twin *t, *next;

	for (t = b->twins; t; t = next) {
		next = t->hh.next;
		HASH_DEL(b->twins, t);
		free(t->path);
		free(t);
	}
	buf_done(&b->out);
	free(b->chunk);
}

static int put_bytes(struct bundling *b, const void *data, size_t len, struct err *err)
{
	(void)SHA256_Update(&b->hash, data, len);
	return result_send(data, len, err);
}

static int put(struct bundling *b, const struct bundle_record *r, struct err *err)
{
	int error;

	buf_truncate(&b->out, 0);
	error = bundle_encode(r, &b->out);
	if (error < 0)
		return result_error(err, -error, "cannot bundle", r->path ? r->path : "a file");
	return put_bytes(b, b->out.data, b->out.len, err);
}

static uint64_t time_of(const struct stat *st)
{
	return st->st_mtim.tv_sec < 0
	               ? 0
	               : (uint64_t)st->st_mtim.tv_sec * 1000000000 + (uint64_t)st->st_mtim.tv_nsec;
}

/* For a sandbox that goes on meanwhile. */
static void set_seen(const struct change *ch, struct bundle_record *r)
{
	r->is_checked = true;
	if (!ch->ours->is_there)
		return;
	r->seen = (struct bundle_seen){.mode = ch->ours->st.st_mode,
	                               .size = (uint64_t)ch->ours->st.st_size,
	                               .mtime_ns = time_of(&ch->ours->st)};
}

static int put_attributes(struct bundling *b, int fd, const char *path, struct err *err)
{
	char names[BUNDLE_TEXT_MAX];
	ssize_t n = flistxattr(fd, names, sizeof(names));

	if (n < 0 && errno != EOPNOTSUPP)
		return result_error(err, errno, "cannot list the attributes of", path);
	for (const char *name = names; name < names + n; name += strlen(name) + 1) {
		struct bundle_record r = {.kind = BUNDLE_ATTRIBUTE, .name = unconst(name)};
		char value[BUNDLE_TEXT_MAX];
		ssize_t len;
		int error;

		if (!entry_version_keeps_attribute(name))
			continue;
		len = fgetxattr(fd, name, value, sizeof(value));
		if (len < 0)
			return result_error(err, errno, "cannot read an attribute of", path);
		r.data = value;
		r.len = (size_t)len;
		error = put(b, &r, err);
		if (error < 0)
			return error;
	}
	return 0;
}

static int put_stretch(struct bundling *b, int fd, off_t at, off_t end, const char *path,
                       struct err *err)
{
	while (at < end) {
		struct bundle_record r = {.kind = BUNDLE_DATA, .offset = (uint64_t)at};
		ssize_t n = pread(fd, b->chunk, (size_t)MIN(end - at, (off_t)BUNDLE_DATA_MAX), at);
		int error;

		if (n <= 0)
			return result_error(err, n < 0 ? errno : EIO, "cannot read", path);
		r.data = b->chunk;
		r.len = (size_t)n;
		error = put(b, &r, err);
		if (error < 0)
			return error;
		at += n;
	}
	return 0;
}

static int put_data(struct bundling *b, int fd, off_t size, const char *path, struct err *err)
{
	off_t at = 0, end;
	int r = 0;

	while (r == 0 && at < size) {
		at = lseek(fd, at, SEEK_DATA);
		if (at < 0 && errno == ENXIO)
			return 0; /* a hole to the end */
		end = at < 0 ? -1 : lseek(fd, at, SEEK_HOLE);
		if (end < 0)
			return result_error(err, errno, "cannot read", path);
		r = put_stretch(b, fd, at, MIN(end, size), path, err);
		at = end;
	}
	return r;
}

/* The path of an entry before this one that is the same file, or NULL. */
static const char *find_twin(struct bundling *b, const struct change *ch)
{
	const struct stat *st = &ch->now->st;
	struct twin *t = NULL, key = {0};

	if (!S_ISREG(st->st_mode) || st->st_nlink < 2)
		return NULL;
	key.key.dev = st->st_dev;
	key.key.ino = st->st_ino;
	HASH_FIND(hh, b->twins, &key.key, sizeof(key.key), t);
	if (t)
		return t->path;
	t = xnew0(struct twin);
	t->key.dev = st->st_dev;
	t->key.ino = st->st_ino;
	t->path = xstrdup(ch->path);
	HASH_ADD(hh, b->twins, key, sizeof(t->key), t);
	return NULL;
}

static int put_content(struct bundling *b, const struct change *ch, struct err *err)
{
	const struct entry_version *t = ch->now;
	auto_fd int fd = -1;
	int r;

	if (!S_ISREG(t->st.st_mode) && !S_ISDIR(t->st.st_mode))
		return 0;
	fd = openat(t->dir_fd, t->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return result_error(err, errno, "cannot open", ch->path);
	r = put_attributes(b, fd, ch->path, err);
	return r == 0 && S_ISREG(t->st.st_mode) ? put_data(b, fd, t->st.st_size, ch->path, err) : r;
}

static int put_entry(struct bundling *b, const struct change *ch, bool has_ours, struct err *err)
{
	const struct stat *st = &ch->now->st;
	const char *twin = find_twin(b, ch);
	struct bundle_record r = {.kind = BUNDLE_ENTRY,
	                          .path = unconst(ch->path),
	                          .mode = st->st_mode,
	                          .uid = st->st_uid,
	                          .gid = st->st_gid,
	                          .mtime_ns = time_of(st),
	                          .target = unconst(twin),
	                          .is_link = twin != NULL};
	char target[PATH_MAX] = "";
	ssize_t n;
	int error;

	if (S_ISREG(st->st_mode) && !twin)
		r.size = (uint64_t)st->st_size;
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(ch->now->dir_fd, ch->now->name, target, sizeof(target) - 1);
		if (n < 0)
			return result_error(err, errno, "cannot read the link", ch->path);
		r.target = target;
	}
	if (has_ours)
		set_seen(ch, &r);
	error = put(b, &r, err);
	return error < 0 || twin ? error : put_content(b, ch, err);
}

static int on_change(const struct change *ch, void *arg, struct err *err)
{
	struct bundling *b = arg;
	const bool has_ours = b->start->flags & FILE_CHECKED;
	const uint32_t gone = CHANGE_DELETED | CHANGE_TYPE;
	struct bundle_record r = {.kind = BUNDLE_DELETE, .path = unconst(ch->path)};
	int error = 0;

	if (ch->changes & CHANGE_CONFLICT && !(b->start->flags & FILE_THEIRS))
		return 0;
	if (has_ours)
		set_seen(ch, &r);
	if (ch->changes & gone)
		error = put(b, &r, err);
	if (error < 0 || !ch->now->is_there)
		return error;
	return put_entry(b, ch, has_ours && !(ch->changes & CHANGE_TYPE), err);
}

/* What the host has to say of it. */
static int put_text(struct bundling *b, struct err *err)
{
	struct bundle_record r = {.kind = BUNDLE_TEXT, .data = b->chunk};
	size_t len = 0;

	while (len < BUNDLE_TEXT_MAX) {
		ssize_t n = read(STDIN_FILENO, b->chunk + len, BUNDLE_TEXT_MAX - len);

		if (n < 0 && errno != EINTR)
			return err_set(err, ERR_INTERNAL, errno, "cannot read the bundle's text");
		if (n == 0)
			break;
		len += (size_t)MAX(n, (ssize_t)0);
	}
	r.len = len;
	return len > 0 ? put(b, &r, err) : 0;
}

static int put_end(struct bundling *b, struct err *err)
{
	unsigned char digest[BUNDLE_DIGEST];
	const struct bundle_record r = {.kind = BUNDLE_END, .data = digest, .len = sizeof(digest)};

	(void)SHA256_Final(digest, &b->hash);
	return put(b, &r, err);
}

int op_bundle_out(struct file_call *call, struct err *err)
{
	const struct tree_compare_ops ops = {.takes_theirs = call->start->flags & FILE_THEIRS,
	                                     .on_change = on_change};
	auto_call(bundling_done) struct bundling b = {
		.start = call->start,
		.out = BUF_INIT(BUNDLE_RECORD_MAX),
		.chunk = xcalloc(1, MAX(BUNDLE_DATA_MAX, BUNDLE_TEXT_MAX))};
	int r;

	(void)SHA256_Init(&b.hash);
	r = put_bytes(&b, BUNDLE_MAGIC, BUNDLE_MAGIC_SIZE, err);
	if (r == 0)
		r = put_text(&b, err);
	if (r == 0)
		r = tree_compare_run(call->start->path, &ops, &b, err);
	return r == 0 ? put_end(&b, err) : r;
}
