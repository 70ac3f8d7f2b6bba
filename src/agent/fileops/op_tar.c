// SPDX-License-Identifier: Apache-2.0
/*
 * A directory out as one archive, and in again.
 *
 * Going in, the archive is hostile and so may be what is already in the directory: every parent is
 * resolved by the kernel beneath the target and through no symbolic link, files are made anew and
 * never opened for writing where something stands. tar/read.c has judged names, kinds and modes
 * before.
 */
#include "agent/archive/compress.h"
#include "agent/fileops/files.h"
#include "agent/fileops/place.h"
#include "base/fd.h"
#include "base/fs/beneath.h"
#include "base/fs/walk.h"
#include "tar/tar.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CHUNK       (64 * 1024)
#define ENTRIES_MAX 1000000 /* where the host names no limit */
#define LATER_MAX   (16 * 1024 * 1024)
#define DIR_FLAGS   (O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC)

static enum compress_kind kind_of(const struct start *s)
{
	if (s->flags & FILE_GZIP)
		return COMPRESS_GZIP;
	return s->flags & FILE_ZSTD ? COMPRESS_ZSTD : COMPRESS_NONE;
}

static int send_out(const void *data, size_t len, void *arg, struct err *err)
{
	(void)arg;
	return len > 0 ? result_send(data, len, err) : 0;
}

static int put_file_data(struct compress *out, int fd, const char *path, uint64_t size,
                         struct err *err)
{
	auto_free char *chunk = xcalloc(1, CHUNK);
	size_t padding = tar_padding(size);

	while (size > 0) {
		ssize_t n = read(fd, chunk, (size_t)MIN(size, (uint64_t)CHUNK));
		int r;

		if (n < 0)
			return result_error(err, errno, "cannot read", path);
		if (n == 0)
			return result_error(err, EIO, "became shorter while it was read:", path);
		r = compress_feed(out, chunk, (size_t)n, err);
		if (r < 0)
			return r;
		size -= (uint64_t)n;
	}
	memset(chunk, 0, TAR_BLOCK);
	return compress_feed(out, chunk, padding, err);
}

static int put_head(struct compress *out, const struct tar_entry *e, struct err *err)
{
	auto_call(buf_done) struct buf head = BUF_INIT(TAR_HEAD_MAX);
	int r = tar_put_head(&head, e);

	if (r < 0)
		return result_error(err, -r, "cannot describe", e->path);
	return compress_feed(out, head.data, head.len, err);
}

static void describe(struct tar_entry *e, const char *path, const struct stat *st)
{
	*e = (struct tar_entry){.path = path,
	                        .mode = st->st_mode & 07777,
	                        .uid = st->st_uid,
	                        .gid = st->st_gid,
	                        .size = (uint64_t)st->st_size,
	                        .mtime_s = (uint64_t)MAX(st->st_mtim.tv_sec, (time_t)0)};
}

static int put_file(struct compress *out, int dir_fd, const char *name, const char *path,
                    struct err *err)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct tar_entry e;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return result_error(err, errno, "cannot read", path);
	if (!S_ISREG(st.st_mode))
		return result_error(err, EINVAL, "changed while it was read:", path);
	describe(&e, path, &st);
	e.kind = TAR_FILE;
	r = put_head(out, &e, err);
	return r < 0 ? r : put_file_data(out, fd, path, e.size, err);
}

static int put_entry(struct compress *out, const struct walk_entry *w, struct err *err)
{
	char target[PATH_MAX];
	struct tar_entry e;
	ssize_t n;

	describe(&e, w->path, &w->st);
	if (S_ISREG(w->st.st_mode))
		return put_file(out, w->dir_fd, w->name, w->path, err);
	if (S_ISDIR(w->st.st_mode)) {
		auto_free char *path = xasprintf("%s/", w->path);

		e.kind = TAR_DIR;
		e.path = path;
		return put_head(out, &e, err);
	}
	if (!S_ISLNK(w->st.st_mode))
		return 0; /* sockets, pipes, devices: nothing that could be unpacked elsewhere */
	n = readlinkat(w->dir_fd, w->name, target, sizeof(target) - 1);
	if (n < 0)
		return result_error(err, errno, "cannot read the link", w->path);
	target[n] = '\0';
	e.kind = TAR_SYMLINK;
	e.target = target;
	return put_head(out, &e, err);
}

static int put_directory(struct compress *out, int fd, struct err *err)
{
	auto_call(walk_freep) struct walk *walk = NULL;
	struct tar_entry root;
	struct walk_entry e;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0) {
		(void)close(fd);
		return err_set(err, ERR_FILE_INVALID, errno, "cannot stat the directory");
	}
	describe(&root, "./", &st);
	root.kind = TAR_DIR;
	r = walk_new(fd, /* is_lenient= */ false, &walk, err);
	if (r >= 0)
		r = put_head(out, &root, err);
	while (r >= 0 && (r = walk_next(walk, &e, err)) > 0)
		if (!e.is_leaving)
			r = put_entry(out, &e, err);
	return r;
}

/* Looks before put_file() opens: opening a device may already do something, and of a socket it says
 * no more than that there is no such device. */
static int check_kind(const struct place *place, const char *path, struct err *err)
{
	struct stat st;

	if (fstatat(place->dir_fd, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return result_error(err, errno, "cannot read", path);
	if (S_ISREG(st.st_mode))
		return 0;
	(void)err_set(err, ERR_FILE_INVALID, 0, "'%s' is neither a directory nor a regular file",
	              path);
	err->errnum = EINVAL;
	return -EINVAL;
}

int op_tar_out(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	auto_call(compress_freep) struct compress *out = NULL;
	auto_call(buf_done) struct buf end = BUF_INIT(2 * TAR_BLOCK);
	auto_call(place_done) struct place place = PLACE_INIT;
	int fd = open(s->path, DIR_FLAGS);
	int r = fd < 0 ? -errno : 0;

	if (r < 0 && r != -ENOTDIR)
		return result_error(err, -r, "cannot read", s->path);
	r = compress_new(kind_of(s), send_out, NULL, &out, err);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	if (fd >= 0) {
		r = put_directory(out, fd, err);
	} else {
		r = place_find(s->path, false, &place, err);
		if (r >= 0)
			r = place_follow(&place, err);
		if (r >= 0)
			r = check_kind(&place, s->path, err);
		if (r >= 0)
			r = put_file(out, place.dir_fd, place.name, place.name, err);
	}
	if (r >= 0 && tar_put_end(&end) >= 0)
		r = compress_feed(out, end.data, end.len, err);
	return r < 0 ? r : compress_finish(out, err);
}

struct unpacking {
	int root_fd;
	struct tar_reader *reader;
	int fd; /* the file whose data comes */
	char *path;
	uint64_t mtime_s;
	struct buf later; /* directories that must not be writable while they are filled: octal
	                     mode, blank, path, NUL */
};

static int refuse(struct err *err, int errnum, const char *path)
{
	if (errnum != ELOOP && errnum != EXDEV && errnum != ENOTDIR)
		return err_set(err, ERR_FILE_INVALID, errnum, "archive entry '%.200s'", path);
	(void)err_set(err, ERR_FILE_INVALID, 0,
	              "archive entry '%.200s': leads through something that is not a directory",
	              path);
	err->errnum = errnum;
	return -errnum;
}

static int unpack_dir(struct unpacking *u, const struct tar_entry *e, int dir_fd, const char *name)
{
	bool is_closed = (e->mode & 0300) != 0300;
	mode_t mode = e->mode | 0300;
	int fd, r;

	if (strcmp(e->path, ".") == 0)
		return 0; /* the target is the caller's, and stays as it is */
	if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = beneath_open(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (fd < 0)
		return fd;
	r = fchmod(fd, mode) < 0 ? -errno : 0;
	(void)close(fd);
	if (r >= 0 && is_closed)
		r = buf_printf(&u->later, "%o %s%c", e->mode, e->path, '\0');
	return r;
}

static int unpack_link(struct unpacking *u, const struct tar_entry *e, int dir_fd, const char *name)
{
	const char *target_name;
	auto_fd int target_fd = -1;

	if (e->kind == TAR_SYMLINK)
		return symlinkat(e->target, dir_fd, name) < 0 ? -errno : 0;
	target_fd = beneath_parent(u->root_fd, e->target, false, &target_name);
	if (target_fd < 0)
		return target_fd;
	return linkat(target_fd, target_name, dir_fd, name, 0) < 0 ? -errno : 0;
}

static int unpack_file(struct unpacking *u, const struct tar_entry *e, int dir_fd, const char *name)
{
	u->fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (u->fd < 0)
		return -errno;
	u->mtime_s = e->mtime_s;
	free(u->path);
	u->path = xstrdup(e->path);
	return fchmod(u->fd, e->mode) < 0 ? -errno : 0;
}

/* What stands there makes way, unless it is the very file that a hard link names. */
static int clear_way(const struct tar_entry *e, int dir_fd, const char *name)
{
	if (e->kind == TAR_HARDLINK && strcmp(e->path, e->target) == 0)
		return -EEXIST;
	return unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static int unpack_on_entry(const struct tar_entry *e, void *arg, struct err *err)
{
	struct unpacking *u = arg;
	const char *name;
	auto_fd int dir_fd = beneath_parent(u->root_fd, e->path, /* make= */ true, &name);
	int r = dir_fd < 0 ? dir_fd : 0;

	if (r >= 0 && e->kind != TAR_DIR)
		r = clear_way(e, dir_fd, name);
	if (r >= 0) {
		switch (e->kind) {
		case TAR_FILE:
			r = unpack_file(u, e, dir_fd, name);
			break;
		case TAR_DIR:
			r = unpack_dir(u, e, dir_fd, name);
			break;
		case TAR_SYMLINK:
		case TAR_HARDLINK:
			r = unpack_link(u, e, dir_fd, name);
			break;
		}
	}
	return r < 0 ? refuse(err, -r, e->path) : 0;
}

static int unpack_on_data(const void *data, size_t len, void *arg, struct err *err)
{
	struct unpacking *u = arg;
	int r = fd_write_all(u->fd, data, len);

	return r < 0 ? refuse(err, -r, u->path) : 0;
}

static int unpack_on_entry_end(void *arg, struct err *err)
{
	struct unpacking *u = arg;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)u->mtime_s}};

	(void)futimens(u->fd, times); /* a time that the file system cannot hold is no failure */
	if (close(take_fd(&u->fd)) < 0)
		return refuse(err, errno, u->path);
	return 0;
}

static const struct tar_ops unpack_ops = {
	.on_entry = unpack_on_entry,
	.on_data = unpack_on_data,
	.on_entry_end = unpack_on_entry_end,
};

static int feed_reader(const void *data, size_t len, void *arg, struct err *err)
{
	const struct unpacking *u = arg;

	return tar_reader_feed(u->reader, data, len, err);
}

static int take_archive(struct unpacking *u, enum compress_kind kind, struct err *err)
{
	auto_call(decompress_freep) struct decompress *in = decompress_new(kind, feed_reader, u);
	int r = decompress_read(in, STDIN_FILENO, NULL, NULL, err);

	return r < 0 ? r : tar_reader_finish(u->reader, err);
}

/* Deepest last in the archive, so from the back: a parent is closed after its children. */
static void close_directories(struct unpacking *u)
{
	while (u->later.len > 0) {
		const char *row, *end = u->later.data + u->later.len - 1;
		unsigned mode;
		int fd;

		for (row = end; row > u->later.data && row[-1] != '\0'; row--)
			;
		if (sscanf(row, "%o ", &mode) == 1) {
			fd = beneath_open(u->root_fd, strchr(row, ' ') + 1,
			                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
			if (fd >= 0) {
				(void)fchmod(fd, mode & 0777);
				(void)close(fd);
			}
		}
		buf_truncate(&u->later, (size_t)(row - u->later.data));
	}
}

int op_tar_in(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	struct tar_limits limits = {.entries = s->limit ? s->limit : ENTRIES_MAX, .bytes = s->size};
	struct unpacking u = {.fd = -1, .later = BUF_INIT(LATER_MAX)};
	struct record done = {.kind = RECORD_COUNT};
	auto_call(place_done) struct place place = PLACE_INIT;
	int r;

	if (s->flags & FILE_PARENTS) {
		r = place_find(s->path, true, &place, err);
		if (r < 0 && r != -EISDIR)
			return r;
		if (r >= 0 && mkdirat(place.dir_fd, place.name, 0777) < 0 && errno != EEXIST)
			return result_error(err, errno, "cannot make", s->path);
	}
	u.root_fd = open(s->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (u.root_fd < 0)
		return result_error(err, errno, "cannot unpack into", s->path);
	u.reader = tar_reader_new(&unpack_ops, &u, &limits);
	r = take_archive(&u, kind_of(s), err);
	if (r < 0)
		return r;
	close_directories(&u);
	done.count = tar_reader_entries(u.reader);
	done.bytes = done.size = tar_reader_bytes(u.reader);
	return files_send_record(&done, err);
}
