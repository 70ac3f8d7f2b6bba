// SPDX-License-Identifier: Apache-2.0
/*
 * Operations on whole trees. None follows a symbolic link on its way, so a link that user code puts
 * there while root copies or removes leads nowhere.
 */
#include "agent/fileops/files.h"
#include "agent/fileops/place.h"
#include "base/fd.h"
#include "base/fs/ladder.h"
#include "base/fs/walk.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define CHUNK     (128 * 1024)
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC)

static_assert(WALK_PATH_MAX <= RECORD_PATH_MAX, "a record holds the path of any entry");

static const char *read_target(const struct walk_entry *e, char target[PATH_MAX])
{
	ssize_t n = readlinkat(e->dir_fd, e->name, target, PATH_MAX - 1);

	target[n > 0 ? n : 0] = '\0';
	return target;
}

int op_list(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	auto_call(walk_freep) struct walk *walk = NULL;
	size_t depth = s->flags & FILE_RECURSIVE ? s->depth : 1;
	char target[PATH_MAX];
	struct walk_entry e;
	uint32_t count = 0;
	int fd = open(s->path, DIR_FLAGS), r;

	if (fd < 0)
		return result_error(err, errno, "cannot list", s->path);
	call->base = s->path;
	r = walk_new(fd, /* is_lenient= */ true, &walk, err);
	while (r >= 0 && (r = walk_next(walk, &e, err)) > 0) {
		if (e.is_leaving)
			continue;
		if (s->limit > 0 && count++ == s->limit) {
			call->exit_flags |= EXIT_TRUNCATED;
			return 0;
		}
		if (depth > 0 && e.depth >= depth)
			walk_prune(walk);
		r = files_send_entry(call, e.path, &e.st,
		                     S_ISLNK(e.st.st_mode) ? read_target(&e, target) : NULL, err);
	}
	return r;
}

static int copy_bytes(int from, int to, uint64_t size)
{
	auto_free char *chunk = NULL;
	ssize_t n;

	/* In the kernel where both sides can; the first failure decides for the slow way. */
	while (size > 0 &&
	       (n = copy_file_range(from, NULL, to, NULL, MIN(size, (size_t)1 << 30), 0)) > 0)
		size -= (uint64_t)n;
	chunk = xcalloc(1, CHUNK);
	while ((n = read(from, chunk, CHUNK)) > 0) {
		int r = fd_write_all(to, chunk, (size_t)n);

		if (r < 0)
			return r;
	}
	return n < 0 ? -errno : 0;
}

static int copy_file(const struct walk_entry *e, int to_dir, const char *name)
{
	auto_fd int from =
		openat(e->dir_fd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	auto_fd int to = -1;
	struct stat st;

	if (from < 0 || fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	if (fchmod(to, st.st_mode & 0777) < 0)
		return -errno;
	return copy_bytes(from, to, (uint64_t)st.st_size);
}

/* Anything but a directory; an older file of that name makes way. Sockets, pipes and devices have
 * no content to copy. */
static int copy_leaf(const struct walk_entry *e, int to_dir, const char *name)
{
	char target[PATH_MAX];
	struct stat old;

	if (fstatat(to_dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0) {
		if (old.st_dev == e->st.st_dev && old.st_ino == e->st.st_ino)
			return -EINVAL;
		if (unlinkat(to_dir, name, 0) < 0)
			return -errno;
	}
	if (S_ISREG(e->st.st_mode))
		return copy_file(e, to_dir, name);
	if (S_ISLNK(e->st.st_mode))
		return symlinkat(read_target(e, target), to_dir, name) < 0 ? -errno : 0;
	return 0;
}

static int make_dir(int dir_fd, const char *name)
{
	struct stat st;

	if (mkdirat(dir_fd, name, 0700) == 0)
		return 0;
	if (errno == EEXIST && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode))
		return 0;
	return -errno;
}

/* The mode comes last: a directory may forbid what copying into it needs. */
static int copy_one(struct walk *walk, const struct walk_entry *e, struct ladder *to,
                    const struct stat *to_root)
{
	int r;

	if (!S_ISDIR(e->st.st_mode))
		return copy_leaf(e, ladder_fd(to), e->name);
	if (e->is_leaving) {
		r = fchmod(ladder_fd(to), e->st.st_mode & 0777) < 0 ? -errno : 0;
		return r < 0 ? r : ladder_up(to);
	}
	if (e->st.st_dev == to_root->st_dev && e->st.st_ino == to_root->st_ino) {
		walk_prune(walk);
		return -EINVAL; /* a directory into itself */
	}
	r = make_dir(ladder_fd(to), e->name);
	return r < 0 ? r : ladder_down(to, e->name);
}

static int copy_tree(int from, const struct place *place, const char *path, mode_t mode,
                     struct err *err)
{
	auto_call(walk_freep) struct walk *walk = NULL;
	auto_call(ladder_done) struct ladder to = {0};
	struct walk_entry e;
	struct stat to_root;
	int r = make_dir(place->dir_fd, place->name), fd;

	if (r < 0) {
		(void)close(from);
		return result_error(err, -r, "cannot make", path);
	}
	r = walk_new(from, /* is_lenient= */ false, &walk, err);
	if (r < 0)
		return r;
	fd = openat(place->dir_fd, place->name, DIR_FLAGS | O_NOFOLLOW);
	if (fd < 0 || ladder_init(&to, fd) < 0 || fstat(fd, &to_root) < 0)
		return result_error(err, errno, "cannot enter", path);
	while ((r = walk_next(walk, &e, err)) > 0) {
		r = copy_one(walk, &e, &to, &to_root);
		if (r < 0)
			return result_error(err, -r, "cannot copy", e.path);
	}
	if (r >= 0 && fchmod(ladder_fd(&to), mode & 0777) < 0)
		return result_error(err, errno, "cannot set the mode of", path);
	return r;
}

static int copy_to(const struct start *s, bool is_recursive, struct err *err)
{
	auto_call(place_done) struct place from = PLACE_INIT;
	auto_call(place_done) struct place to = PLACE_INIT;
	struct walk_entry e = {0};
	struct stat st;
	int r = place_find(s->path, false, &from, err), fd;

	if (r >= 0)
		r = place_find(s->path2, s->flags & FILE_PARENTS, &to, err);
	if (r < 0)
		return r;
	if (fstatat(from.dir_fd, from.name, &e.st, AT_SYMLINK_NOFOLLOW) < 0)
		return result_error(err, errno, "cannot copy", s->path);
	if (s->flags & FILE_EXCLUSIVE && fstatat(to.dir_fd, to.name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return result_error(err, EEXIST, "cannot copy to", s->path2);
	if (!S_ISDIR(e.st.st_mode)) {
		e.dir_fd = from.dir_fd;
		e.name = from.name;
		r = copy_leaf(&e, to.dir_fd, to.name);
		return r < 0 ? result_error(err, -r, "cannot copy to", s->path2) : 0;
	}
	if (!is_recursive)
		return result_error(err, EISDIR, "cannot copy without 'recursive'", s->path);
	fd = openat(from.dir_fd, from.name, DIR_FLAGS | O_NOFOLLOW);
	if (fd < 0)
		return result_error(err, errno, "cannot copy", s->path);
	return copy_tree(fd, &to, s->path2, e.st.st_mode, err);
}

int op_copy(struct file_call *call, struct err *err)
{
	return copy_to(call->start, call->start->flags & FILE_RECURSIVE, err);
}

static int remove_tree(const struct place *place, const char *path, struct err *err)
{
	auto_call(walk_freep) struct walk *walk = NULL;
	int fd = openat(place->dir_fd, place->name, DIR_FLAGS | O_NOFOLLOW), r;
	struct walk_entry e;

	if (fd < 0)
		return result_error(err, errno, "cannot remove", path);
	r = walk_new(fd, /* is_lenient= */ false, &walk, err);
	while (r >= 0 && (r = walk_next(walk, &e, err)) > 0) {
		bool is_dir = S_ISDIR(e.st.st_mode);

		if (is_dir && !e.is_leaving)
			continue;
		if (unlinkat(e.dir_fd, e.name, is_dir ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT)
			return result_error(err, errno, "cannot remove", e.path);
	}
	if (r >= 0 && unlinkat(place->dir_fd, place->name, AT_REMOVEDIR) < 0)
		return result_error(err, errno, "cannot remove", path);
	return r;
}

static int remove_path(const char *path, bool is_recursive, bool may_miss, struct err *err)
{
	auto_call(place_done) struct place place = PLACE_INIT;
	struct stat st;
	int r = place_find(path, false, &place, err);

	if (r == -ENOENT && may_miss)
		return 0;
	if (r < 0)
		return r;
	if (fstatat(place.dir_fd, place.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT && may_miss
		               ? 0
		               : result_error(err, errno, "cannot remove", path);
	if (S_ISDIR(st.st_mode) && is_recursive)
		return remove_tree(&place, path, err);
	if (unlinkat(place.dir_fd, place.name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
		return result_error(err, errno, "cannot remove", path);
	return 0;
}

int op_remove(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;

	return remove_path(s->path, s->flags & FILE_RECURSIVE, s->flags & FILE_MISSING_OK, err);
}

int op_move(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	auto_call(place_done) struct place from = PLACE_INIT;
	auto_call(place_done) struct place to = PLACE_INIT;
	unsigned flags = s->flags & FILE_EXCLUSIVE ? RENAME_NOREPLACE : 0;
	int r = place_find(s->path, false, &from, err);

	if (r >= 0)
		r = place_find(s->path2, s->flags & FILE_PARENTS, &to, err);
	if (r < 0)
		return r;
	if (renameat2(from.dir_fd, from.name, to.dir_fd, to.name, flags) == 0)
		return 0;
	/* Another mount, or a directory of an overlay's lower layer. */
	if (errno != EXDEV)
		return result_error(err, errno, "cannot move", s->path);
	r = copy_to(s, /* is_recursive= */ true, err);
	return r < 0 ? r : remove_path(s->path, /* is_recursive= */ true, false, err);
}
