// SPDX-License-Identifier: Apache-2.0
/*
 * A directory is staged, too, empty: where there is none it moves to its place, and where there is
 * one, that gets its owner, mode and attributes. Directories get their times last, since each file
 * that comes changes them.
 *
 * Paths of the bundle are a stranger's, and so is the tree: parents are resolved by the kernel,
 * beneath the root and through no symbolic link.
 */
#include "agent/archive/staging.h"

#include "agent/archive/entry_compare.h"
#include "agent/archive/result.h"
#include "base/fd.h"
#include "base/fs/beneath.h"
#include "base/fs/walk.h"
#include "base/units.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#define ITEMS_MAX 1000000
#define NAME_SIZE 24
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

struct item {
	struct bundle_record r; /* an entry or a delete; strings are ours */
	bool is_new;            /* a directory that was not there */
};

struct staging {
	int root_fd, usr_fd; /* usr_fd -1: /usr is on the same filesystem */
	int fds[2];          /* the staging directories: of "/", of /usr */
	struct item *items;
	size_t n, room;
	int open_fd; /* of the entry that came last, a file or directory; or -1 */
};

static void drop_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

static void remove_inside(int fd)
{
	struct walk *walk = NULL;
	struct walk_entry e;
	struct err err;

	if (walk_new(fd, /* is_lenient= */ true, &walk, &err) < 0)
		return;
	while (walk_next(walk, &e, &err) > 0)
		if (!S_ISDIR(e.st.st_mode) || e.is_leaving)
			(void)unlinkat(e.dir_fd, e.name, S_ISDIR(e.st.st_mode) ? AT_REMOVEDIR : 0);
	walk_free(walk);
}

/* An empty one, ours alone. */
static int make_staging(int dir_fd)
{
	int fd = openat(dir_fd, STAGING_NAME, DIR_FLAGS | O_CLOEXEC);

	if (fd >= 0)
		remove_inside(fd);
	if (unlinkat(dir_fd, STAGING_NAME, fd >= 0 ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT)
		return -errno;
	if (mkdirat(dir_fd, STAGING_NAME, 0700) < 0)
		return -errno;
	fd = openat(dir_fd, STAGING_NAME, DIR_FLAGS | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static bool is_same_filesystem(int a_fd, int b_fd)
{
	struct stat a, b;

	return fstat(a_fd, &a) == 0 && fstat(b_fd, &b) == 0 && a.st_dev == b.st_dev;
}

int staging_open(const char *root, struct staging **ret, struct err *err)
{
	struct staging *s = xnew0(struct staging);
	int r = 0;

	*s = (struct staging){.fds = {-1, -1}, .usr_fd = -1, .open_fd = -1};
	s->root_fd = open(root, DIR_FLAGS | O_CLOEXEC);
	if (s->root_fd < 0)
		r = -errno;
	if (r == 0)
		s->usr_fd = openat(s->root_fd, "usr", DIR_FLAGS | O_CLOEXEC);
	if (s->usr_fd >= 0 && is_same_filesystem(s->root_fd, s->usr_fd))
		drop_fd(&s->usr_fd);
	if (r == 0)
		r = s->fds[0] = make_staging(s->root_fd);
	if (r >= 0 && s->usr_fd >= 0)
		r = s->fds[1] = make_staging(s->usr_fd);
	if (r < 0) {
		staging_close(s);
		return result_error(err, -r, "cannot make a place for the bundle in", root);
	}
	*ret = s;
	return 0;
}

void staging_close(struct staging *s)
{
	if (!s)
		return;
	drop_fd(&s->open_fd);
	for (size_t i = 0; i < ARRAY_SIZE(s->fds); i++)
		if (s->fds[i] >= 0) {
			remove_inside(s->fds[i]);
			(void)unlinkat(i == 0 ? s->root_fd : s->usr_fd, STAGING_NAME, AT_REMOVEDIR);
		}
	drop_fd(&s->usr_fd);
	drop_fd(&s->root_fd);
	for (size_t i = 0; i < s->n; i++)
		bundle_record_done(&s->items[i].r);
	free(s->items);
	free(s);
}

uint64_t staging_count(const struct staging *s)
{
	return s->n;
}

static int stage_of(const struct staging *s, const char *path)
{
	return s->fds[s->fds[1] >= 0 && strncmp(path, "/usr/", 5) == 0];
}

static void name_of(size_t i, char ret[NAME_SIZE])
{
	(void)snprintf(ret, NAME_SIZE, "%zu", i);
}

static int give_times(int dir_fd, const char *name, uint64_t mtime_ns)
{
	const struct timespec t = {.tv_sec = (time_t)(mtime_ns / SECOND_NS),
	                           .tv_nsec = (long)(mtime_ns % SECOND_NS)};
	const struct timespec times[] = {t, t};

	return utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW);
}

static int make_thing(int dir_fd, const char *name, const struct bundle_record *r)
{
	switch (r->mode & S_IFMT) {
	case S_IFDIR:
		return mkdirat(dir_fd, name, 0700);
	case S_IFLNK:
		return symlinkat(r->target, dir_fd, name);
	case S_IFREG:
		return 0;
	default:
		return mknodat(dir_fd, name, (r->mode & S_IFMT) | 0600, 0);
	}
}

/* The owner first: to change it takes bits away from the mode. */
static int give_owner(int dir_fd, const char *name, const struct bundle_record *r)
{
	if (fchownat(dir_fd, name, r->uid, r->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	return S_ISLNK(r->mode) ? 0 : fchmodat(dir_fd, name, r->mode & 07777, 0);
}

/* What the last entry still lacks: data may come until the next one does. */
static int finish_last(struct staging *s, struct err *err)
{
	const struct bundle_record *r = s->n > 0 ? &s->items[s->n - 1].r : NULL;
	char name[NAME_SIZE];
	int dir_fd;

	drop_fd(&s->open_fd);
	if (!r || r->kind != BUNDLE_ENTRY || r->is_link)
		return 0;
	name_of(s->n - 1, name);
	dir_fd = stage_of(s, r->path);
	if (give_owner(dir_fd, name, r) < 0 || give_times(dir_fd, name, r->mtime_ns) < 0)
		return result_error(err, errno, "cannot give its owner and mode to", r->path);
	return 0;
}

static int begin_entry(struct staging *s, const struct bundle_record *r, struct err *err)
{
	const int dir_fd = stage_of(s, r->path);
	char name[NAME_SIZE];

	name_of(s->n, name);
	if (r->is_link)
		return 0;
	if (make_thing(dir_fd, name, r) < 0)
		return result_error(err, errno, "cannot make", r->path);
	if (S_ISREG(r->mode))
		s->open_fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	else if (S_ISDIR(r->mode))
		s->open_fd = openat(dir_fd, name, DIR_FLAGS | O_CLOEXEC);
	else
		return 0;
	if (s->open_fd < 0 ||
	    (S_ISREG(r->mode) && r->size > 0 && ftruncate(s->open_fd, (off_t)r->size) < 0))
		return result_error(err, errno, "cannot make", r->path);
	return 0;
}

static int add_item(struct staging *s, struct bundle_record *r, struct err *err)
{
	int error = finish_last(s, err);

	if (error == 0 && s->n == ITEMS_MAX)
		error = err_set(err, ERR_TOO_LARGE, E2BIG, "the bundle has more than %d entries",
		                ITEMS_MAX);
	if (error == 0 && r->kind == BUNDLE_ENTRY)
		error = begin_entry(s, r, err);
	if (error < 0)
		return error;
	if (s->n == s->room) {
		s->room = MAX(2 * s->room, (size_t)256);
		s->items = xrealloc(s->items, s->room * sizeof(*s->items));
	}
	s->items[s->n++] = (struct item){.r = *r};
	*r = (struct bundle_record){0};
	return 0;
}

static int write_data(struct staging *s, const struct bundle_record *r, struct err *err)
{
	const struct bundle_record *to = &s->items[s->n - 1].r;
	const char *data = r->data;

	if (!S_ISREG(to->mode) || r->offset + r->len > to->size)
		return err_set(err, ERR_FILE_INVALID, EPROTO, "the bundle is torn or no bundle");
	for (size_t at = 0; at < r->len;) {
		ssize_t n = pwrite(s->open_fd, data + at, r->len - at, (off_t)(r->offset + at));

		if (n < 0 && errno != EINTR)
			return result_error(err, errno, "cannot write", to->path);
		at += (size_t)MAX(n, (ssize_t)0);
	}
	return 0;
}

int staging_take(struct staging *s, struct bundle_record *r, struct err *err)
{
	if (r->kind == BUNDLE_ENTRY || r->kind == BUNDLE_DELETE)
		return add_item(s, r, err);
	if (s->open_fd < 0)
		return err_set(err, ERR_FILE_INVALID, EPROTO, "the bundle is torn or no bundle");
	if (r->kind == BUNDLE_DATA)
		return write_data(s, r, err);
	if (fsetxattr(s->open_fd, r->name, r->data, r->len, 0) < 0)
		return result_error(err, errno, "cannot set an attribute of",
		                    s->items[s->n - 1].r.path);
	return 0;
}

static bool is_as_seen(const struct bundle_seen *seen, const struct stat *st, bool is_there)
{
	uint64_t mtime_ns;

	if (!is_there || seen->mode == 0)
		return is_there == (seen->mode != 0);
	if (S_ISDIR(st->st_mode)) /* its times and size change with what is in it */
		return S_ISDIR(seen->mode);
	mtime_ns = st->st_mtim.tv_sec < 0 ? 0
	                                  : (uint64_t)st->st_mtim.tv_sec * SECOND_NS +
	                                            (uint64_t)st->st_mtim.tv_nsec;
	return st->st_mode == seen->mode && (uint64_t)st->st_size == seen->size &&
	       mtime_ns == seen->mtime_ns;
}

int staging_check(struct staging *s, struct err *err)
{
	int r = finish_last(s, err);

	for (size_t i = 0; r == 0 && i < s->n; i++) {
		const struct bundle_record *item = &s->items[i].r;
		const char *name = NULL;
		auto_fd int dir_fd = -1;
		struct stat st;

		if (!item->is_checked)
			continue;
		dir_fd = beneath_parent(s->root_fd, item->path + 1, /* make= */ false, &name);
		if (is_as_seen(&item->seen, &st,
		               dir_fd >= 0 && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0))
			continue;
		(void)err_set(err, ERR_CONFLICT, EBUSY, "'%.150s' was changed meanwhile",
		              item->path);
		return err_hint(err, "nothing was applied: try again");
	}
	return r;
}

static int put_away(struct staging *s, const struct bundle_record *r, struct err *err)
{
	const char *name = NULL;
	auto_fd int dir_fd = beneath_parent(s->root_fd, r->path + 1, /* make= */ false, &name);
	struct stat st;

	if (dir_fd == -ENOENT)
		return 0;
	if (dir_fd < 0)
		return result_error(err, -dir_fd, "cannot remove", r->path);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (unlinkat(dir_fd, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT)
		return result_error(err, errno, "cannot remove", r->path);
	return 0;
}

static void copy_attributes(int from_fd, int to_fd)
{
	char names[BUNDLE_TEXT_MAX], value[BUNDLE_TEXT_MAX];
	ssize_t n = flistxattr(to_fd, names, sizeof(names));

	for (const char *name = names; name < names + n; name += strlen(name) + 1)
		if (entry_version_keeps_attribute(name))
			(void)fremovexattr(to_fd, name);
	n = flistxattr(from_fd, names, sizeof(names));
	for (const char *name = names; name < names + n; name += strlen(name) + 1) {
		ssize_t len = fgetxattr(from_fd, name, value, sizeof(value));

		if (len >= 0 && entry_version_keeps_attribute(name))
			(void)fsetxattr(to_fd, name, value, (size_t)len, 0);
	}
}

/* One that is there stays, with all that is in it. */
static int put_dir(struct item *item, int stage_fd, const char *staged, int dir_fd,
                   const char *name)
{
	auto_fd int from_fd = -1, to_fd = -1;

	item->is_new = renameat2(stage_fd, staged, dir_fd, name, RENAME_NOREPLACE) == 0;
	if (item->is_new)
		return 0;
	from_fd = openat(stage_fd, staged, DIR_FLAGS | O_CLOEXEC);
	to_fd = beneath_open(dir_fd, name, DIR_FLAGS);
	if (from_fd < 0 || to_fd < 0)
		return -ENOTDIR;
	copy_attributes(from_fd, to_fd);
	return fchown(to_fd, item->r.uid, item->r.gid) < 0 ||
	                       fchmod(to_fd, item->r.mode & 07777) < 0
	               ? -errno
	               : 0;
}

static int put_link(struct staging *s, const struct bundle_record *r, int stage_fd,
                    const char *staged, int dir_fd, const char *name)
{
	const char *target = NULL;
	auto_fd int target_fd =
		beneath_parent(s->root_fd, r->target + 1, /* make= */ false, &target);

	if (target_fd < 0)
		return target_fd;
	if (linkat(target_fd, target, stage_fd, staged, 0) < 0 ||
	    renameat(stage_fd, staged, dir_fd, name) < 0)
		return -errno;
	return 0;
}

static int put_item(struct staging *s, size_t i, struct err *err)
{
	struct item *item = &s->items[i];
	const int stage_fd = stage_of(s, item->r.path);
	const char *name = NULL;
	auto_fd int dir_fd = beneath_parent(s->root_fd, item->r.path + 1, /* make= */ true, &name);
	char staged[NAME_SIZE];
	int r;

	name_of(i, staged);
	if (dir_fd < 0)
		r = dir_fd;
	else if (item->r.is_link)
		r = put_link(s, &item->r, stage_fd, staged, dir_fd, name);
	else if (S_ISDIR(item->r.mode))
		r = put_dir(item, stage_fd, staged, dir_fd, name);
	else
		r = renameat(stage_fd, staged, dir_fd, name) < 0 ? -errno : 0;
	return r < 0 ? result_error(err, -r, "cannot put in place", item->r.path) : 0;
}

static void give_dir_times(struct staging *s, const struct bundle_record *r)
{
	const char *name = NULL;
	auto_fd int dir_fd = beneath_parent(s->root_fd, r->path + 1, /* make= */ false, &name);

	if (dir_fd >= 0)
		(void)give_times(dir_fd, name, r->mtime_ns);
}

int staging_apply(struct staging *s, struct err *err)
{
	int r = 0;

	for (size_t i = s->n; r == 0 && i-- > 0;)
		if (s->items[i].r.kind == BUNDLE_DELETE)
			r = put_away(s, &s->items[i].r, err);
	for (size_t i = 0; r == 0 && i < s->n; i++)
		if (s->items[i].r.kind == BUNDLE_ENTRY)
			r = put_item(s, i, err);
	for (size_t i = s->n; r == 0 && i-- > 0;)
		if (s->items[i].r.kind == BUNDLE_ENTRY && S_ISDIR(s->items[i].r.mode))
			give_dir_times(s, &s->items[i].r);
	return r;
}
