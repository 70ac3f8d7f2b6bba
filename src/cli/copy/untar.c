// SPDX-License-Identifier: Apache-2.0
/*
 * The disk side of an archive; tar/read.c has judged names, kinds and modes before.
 *
 * Names are resolved by the kernel beneath the destination with no symbolic link on the way, so
 * that neither what the archive made nor what lay there before can lead out. An existing file is
 * replaced, never written into: a hard link to it elsewhere keeps its content. A directory is never
 * replaced.
 *
 * A link's target may climb ("..") only at its beginning, and no further than its own directory is
 * deep: "a/.." may not be what it looks like when a is itself a link. Together with the rule above
 * every link made here ends inside, whatever others it passes.
 *
 * Owners and set-id bits are not taken over; directories stay usable by their owner.
 */
#include "cli/copy/untar.h"

#include "base/fd.h"
#include "base/fs/beneath.h"
#include "tar/tar.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct untar {
	int dir_fd;
	untar_skip_fn skip;
	void *skip_arg;
	mode_t mask;
	struct tar_reader *reader;

	/* The file being written. */
	int fd, parent_fd;
	char *path;
	const char *leaf; /* in path */
	mode_t mode;
	time_t mtime;
};

static void skip_entry(const struct untar *u, const char *path, const char *why)
{
	if (u->skip)
		u->skip(path, why, u->skip_arg);
}

static int unsafe(struct err *err, const char *path, const char *what)
{
	return err_set(err, ERR_FILE_INVALID, EPERM, "the archive is not safe: '%.200s' %s", path,
	               what);
}

static int open_parent(const struct untar *u, const char *path, int *ret_fd, const char **ret_leaf,
                       struct err *err)
{
	int fd = beneath_parent(u->dir_fd, path, /* make= */ true, ret_leaf);

	if (fd == -ELOOP || fd == -EXDEV || fd == -ENOTDIR)
		return unsafe(err, path, "leads through what is no directory");
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, -fd, "cannot make the directory of '%.200s'",
		               path);
	*ret_fd = fd;
	return 0;
}

/* What is in the way goes, unless it is a directory. */
static int clear_leaf(int parent_fd, const char *leaf, const char *path, struct err *err)
{
	if (unlinkat(parent_fd, leaf, 0) < 0 && errno != ENOENT)
		return err_set(err, ERR_FILE_EXISTS, errno, "cannot replace '%.200s'", path);
	return 0;
}

static void close_file(struct untar *u)
{
	if (u->fd >= 0)
		(void)close(take_fd(&u->fd));
	if (u->parent_fd >= 0)
		(void)close(take_fd(&u->parent_fd));
	free(take_ptr(u->path));
}

static int make_file(struct untar *u, const struct tar_entry *e, struct err *err)
{
	int r;

	u->path = xstrdup(e->path);
	u->mode = e->mode & ~u->mask;
	u->mtime = (time_t)e->mtime_s;
	r = open_parent(u, u->path, &u->parent_fd, &u->leaf, err);
	if (r < 0)
		return r;
	r = clear_leaf(u->parent_fd, u->leaf, u->path, err);
	if (r < 0)
		return r;
	u->fd = openat(u->parent_fd, u->leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	               0600);
	if (u->fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%.200s'", u->path);
	return 0;
}

static int make_dir(const struct untar *u, const struct tar_entry *e, struct err *err)
{
	auto_fd int parent_fd = -1;
	auto_fd int fd = -1;
	const char *leaf;
	int r;

	if (strcmp(e->path, ".") == 0)
		return 0; /* the destination is the user's, and stays as it is */
	r = open_parent(u, e->path, &parent_fd, &leaf, err);
	if (r < 0)
		return r;
	if (mkdirat(parent_fd, leaf, e->mode | 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the directory '%.200s'",
		               e->path);
	fd = beneath_open(parent_fd, leaf, O_PATH | O_DIRECTORY);
	return fd < 0 ? unsafe(err, e->path, "is a directory where something else lies") : 0;
}

/* depth: how many directories the link lies below the destination. */
static bool target_stays_inside(const char *target, size_t depth)
{
	bool has_descended = false;

	if (*target == '/')
		return false;
	while (*target) {
		size_t n = (size_t)(strchrnul(target, '/') - target);

		if (n == 2 && target[0] == '.' && target[1] == '.') {
			if (has_descended || depth == 0)
				return false;
			depth--;
		} else if (n > 0 && !(n == 1 && target[0] == '.')) {
			has_descended = true;
		}
		target += n + (target[n] == '/');
	}
	return true;
}

static int make_symlink(const struct untar *u, const struct tar_entry *e, struct err *err)
{
	auto_fd int parent_fd = -1;
	const char *leaf;
	size_t depth = 0;
	int r;

	for (const char *p = e->path; *p; p++)
		depth += *p == '/';
	if (!target_stays_inside(e->target, depth)) {
		skip_entry(u, e->path, "a link that points out of the directory");
		return 0;
	}
	r = open_parent(u, e->path, &parent_fd, &leaf, err);
	if (r < 0)
		return r;
	r = clear_leaf(parent_fd, leaf, e->path, err);
	if (r < 0)
		return r;
	if (symlinkat(e->target, parent_fd, leaf) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the link '%.200s'", e->path);
	return 0;
}

static int make_hardlink(const struct untar *u, const struct tar_entry *e, struct err *err)
{
	const char *from_leaf, *to_leaf;
	auto_fd int from_fd = beneath_parent(u->dir_fd, e->target, /* make= */ false, &from_leaf);
	auto_fd int to_fd = -1;
	struct stat st;
	int r;

	if (strcmp(e->target, e->path) == 0)
		return unsafe(err, e->path, "is a hard link to itself");
	if (from_fd < 0 || fstatat(from_fd, from_leaf, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return unsafe(err, e->path, "is a hard link to what is no file in the archive");
	r = open_parent(u, e->path, &to_fd, &to_leaf, err);
	if (r < 0)
		return r;
	r = clear_leaf(to_fd, to_leaf, e->path, err);
	if (r < 0)
		return r;
	if (linkat(from_fd, from_leaf, to_fd, to_leaf, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the hard link '%.200s'",
		               e->path);
	return 0;
}

static int untar_on_entry(const struct tar_entry *e, void *arg, struct err *err)
{
	struct untar *u = arg;

	switch (e->kind) {
	case TAR_FILE:
		return make_file(u, e, err);
	case TAR_DIR:
		return make_dir(u, e, err);
	case TAR_SYMLINK:
		return make_symlink(u, e, err);
	case TAR_HARDLINK:
		break;
	}
	return make_hardlink(u, e, err);
}

static int untar_on_data(const void *data, size_t len, void *arg, struct err *err)
{
	const struct untar *u = arg;
	int r = fd_write_all(u->fd, data, len);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write '%.200s'", u->path) : 0;
}

static int untar_on_entry_end(void *arg, struct err *err)
{
	struct untar *u = arg;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = u->mtime}};

	if (fchmod(u->fd, u->mode) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot finish '%.200s'", u->path);
	(void)futimens(u->fd, times); /* a time that the file system cannot hold is no failure */
	close_file(u);
	return 0;
}

static void untar_on_pipe(const char *path, void *arg)
{
	skip_entry(arg, path, "a fifo");
}

static const struct tar_ops untar_ops = {
	.on_entry = untar_on_entry,
	.on_data = untar_on_data,
	.on_entry_end = untar_on_entry_end,
	.on_pipe = untar_on_pipe,
};

struct untar *untar_new(int dir_fd, untar_skip_fn skip, void *arg)
{
	static const struct tar_limits no_limits;
	struct untar *u = xnew0(struct untar);

	u->dir_fd = dir_fd;
	u->skip = skip;
	u->skip_arg = arg;
	u->mask = umask(0); /* there is no other way to learn it */
	(void)umask(u->mask);
	u->fd = u->parent_fd = -1;
	u->reader = tar_reader_new(&untar_ops, u, &no_limits);
	return u;
}

void untar_free(struct untar *u)
{
	if (!u)
		return;
	if (u->fd >= 0)
		(void)unlinkat(u->parent_fd, u->leaf, 0);
	close_file(u);
	tar_reader_free(u->reader);
	free(u);
}

int untar_feed(struct untar *u, const char *data, size_t len, struct err *err)
{
	return tar_reader_feed(u->reader, data, len, err);
}

int untar_finish(struct untar *u, struct err *err)
{
	int r = tar_reader_finish(u->reader, err);

	if (r >= 0 && !tar_reader_is_closed(u->reader))
		return err_set(err, ERR_FILE_INVALID, 0, "the archive ends too early");
	return r;
}
