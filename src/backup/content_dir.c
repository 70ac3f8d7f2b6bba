// SPDX-License-Identifier: Apache-2.0
/* Content in a directory. Only root may read it: it holds the files of all tenants. */
#include "backup/content_private.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define NEW "chunks/new" /* what is being written; one at a time, by the lock */

static int has(const struct content *c, const char *path)
{
	struct stat st;

	return fstatat(c->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0;
}

static int write_new(const struct content *c, const char *name, const void *data, size_t len)
{
	auto_fd int fd =
		openat(c->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd_write_all(fd, data, len);
}

static int add(struct content *c, const char *path, const void *data, size_t len, struct err *err)
{
	char dir[16];
	int r = write_new(c, NEW, data, len);

	(void)snprintf(dir, sizeof(dir), "%.9s", path); /* "chunks/ab" */
	if (r == 0 && mkdirat(c->fd, dir, 0700) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0 && renameat(c->fd, NEW, c->fd, path) < 0)
		r = -errno;
	return r < 0 ? content_failed(c, -r, "write to", err) : 0;
}

static int read_file(struct content *c, const char *path, struct buf *out, struct err *err)
{
	auto_fd int fd = openat(c->fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char *room;
	int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

	if (r == 0)
		r = st.st_size == 0 ? -ENODATA : buf_reserve(out, (size_t)st.st_size, &room);
	if (r == 0)
		r = fd_read_all(fd, room, (size_t)st.st_size);
	if (r < 0) {
		(void)err_set(err, ERR_FILE_INVALID, -r,
		              "the backup '%s' is damaged: '%s' is missing", c->path, path);
		return err_hint(err, "make a backup: it copies again what is still there");
	}
	buf_commit(out, (size_t)st.st_size);
	return 0;
}

static int commit(struct content *c, const char *path, const void *data, size_t len,
                  struct err *err)
{
	auto_fd int dir_fd = -1;
	int r = write_new(c, "backups/new", data, len);

	if (r == 0 && syncfs(c->fd) < 0)
		r = -errno;
	if (r == 0 && renameat(c->fd, "backups/new", c->fd, path) < 0)
		r = -errno;
	if (r == 0)
		dir_fd = openat(c->fd, "backups", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && (dir_fd < 0 || fsync(dir_fd) < 0))
		r = -errno;
	return r < 0 ? content_failed(c, -r, "finish the backup in", err) : 0;
}

static int each_name(const struct content *c, const char *dir,
                     void (*fn)(const char *name, void *arg), void *arg)
{
	auto_fd int fd = openat(c->fd, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dir_reader names;
	const char *name;
	int r = fd < 0 ? -errno : dir_begin(&names, fd);

	if (r < 0)
		return r;
	while ((name = dir_next(&names)))
		fn(name, arg);
	return names.error;
}

static int list(struct content *c, void (*fn)(const char *name, void *arg), void *arg,
                struct err *err)
{
	int r = each_name(c, "backups", fn, arg);

	return r < 0 ? content_failed(c, -r, "list the backups in", err) : 0;
}

static void close_dir(struct content *c)
{
	if (c->fd >= 0)
		(void)close(c->fd);
	if (c->lock_fd >= 0)
		(void)close(c->lock_fd);
}

const struct content_ops content_dir = {.has = has,
                                        .add = add,
                                        .read = read_file,
                                        .commit = commit,
                                        .list = list,
                                        .close = close_dir};

static int make_dirs(struct content *c, struct err *err)
{
	static const char *const dirs[] = {"chunks", "backups"};
	struct dir_reader dir;
	bool is_made = mkdir(c->path, 0700) == 0;

	if (!is_made && errno != EEXIST)
		return content_failed(c, errno, "make", err);
	c->fd = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->fd < 0)
		return content_failed(c, errno, "open", err);
	if (faccessat(c->fd, "backups", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (dir_begin(&dir, c->fd) < 0 || dir_next(&dir) || dir.error < 0) {
		(void)err_set(err, ERR_CONFLICT, ENOTEMPTY, "'%s' holds other files", c->path);
		return err_hint(err,
		                "name an empty directory, one that has backups, or a file that "
		                "ends in .tar");
	}
	if (fchmod(c->fd, 0700) < 0)
		return content_failed(c, errno, "set up", err);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdirat(c->fd, dirs[i], 0700) < 0)
			return content_failed(c, errno, "set up", err);
	return 0;
}

int content_dir_open(struct content *c, bool is_new, struct err *err)
{
	int r = 0;

	c->ops = &content_dir;
	if (is_new)
		r = make_dirs(c, err);
	else
		c->fd = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r < 0)
		return r;
	if (c->fd < 0 || faccessat(c->fd, "backups", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "'%s' holds no backups", c->path);
	c->lock_fd = openat(c->fd, "lock",
	                    (is_new ? O_RDWR | O_CREAT : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (c->lock_fd < 0)
		return content_failed(c, errno, "lock", err);
	if (flock(c->lock_fd, (is_new ? LOCK_EX : LOCK_SH) | LOCK_NB) < 0)
		return err_set(err, ERR_CONFLICT, errno, "'%s' is in use by another cloche",
		               c->path);
	return 0;
}

int content_forget(struct content *c, const char *name, struct err *err)
{
	auto_free char *path = xasprintf("backups/%s", name);

	return unlinkat(c->fd, path, 0) < 0 ? content_failed(c, errno, "remove a backup from", err)
	                                    : 0;
}

struct prune {
	struct content *content;
	const char *dir;
	uint64_t bytes;
	int failure;
};

static void prune_chunk(const char *name, void *arg)
{
	struct prune *p = arg;
	auto_free char *path = xasprintf("%s/%s", p->dir, name);
	struct digest digest;
	struct stat st;

	if ((digest_parse(name, &digest) == 0 && content_knows(p->content, &digest)) ||
	    fstatat(p->content->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (unlinkat(p->content->fd, path, 0) < 0)
		p->failure = errno;
	else
		p->bytes += (uint64_t)st.st_size;
}

static void prune_dir(const char *name, void *arg)
{
	struct prune *p = arg;
	auto_free char *dir = xasprintf("chunks/%s", name);

	if (strlen(name) != 2)
		return;
	p->dir = dir;
	(void)!each_name(p->content, dir, prune_chunk, p);
}

int content_prune(struct content *c, uint64_t *ret_bytes, struct err *err)
{
	struct prune p = {.content = c};
	int r = each_name(c, "chunks", prune_dir, &p);

	if (r < 0 || p.failure)
		return content_failed(c, r < 0 ? -r : p.failure, "remove old content from", err);
	*ret_bytes = p.bytes;
	return 0;
}
