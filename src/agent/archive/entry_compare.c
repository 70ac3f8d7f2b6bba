// SPDX-License-Identifier: Apache-2.0
/*
 * Two regular files whose extents lie at the same places of the disk have the same bytes: btrfs
 * shares what nobody has written since a snapshot, so that need not be read. All else is read.
 * Extents that are inline or not yet on disk have no place and say nothing.
 *
 * A sandbox may have any number of files. So the buffers are made once for the whole program: to
 * allocate and clear them for each pair took longer than to compare it.
 */
#include "agent/archive/entry_compare.h"

#include "agent/archive/result.h"
#include "proto/start.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

#define CHUNK         (128 * 1024)
#define EXTENTS       64 /* a call */
#define NAMES_MAX     (64 * 1024)
#define EXTENT_MARKS  (FIEMAP_EXTENT_LAST | FIEMAP_EXTENT_SHARED)
#define OVERLAY_MARKS "user.overlay."

struct pair { /* of what is compared */
	char old[CHUNK], now[CHUNK];
};
static_assert(NAMES_MAX <= CHUNK, "an attribute does not fit");

static struct pair data, names, values;

int entry_version_look(int dir_fd, const char *name, struct entry_version *ret, struct err *err)
{
	*ret = (struct entry_version){.dir_fd = dir_fd, .name = name};
	if (dir_fd < 0)
		return 0;
	ret->is_there = fstatat(dir_fd, name, &ret->st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!ret->is_there && errno != ENOENT)
		return result_error(err, errno, "cannot look at", name);
	return 0;
}

static int open_thing(const struct entry_version *t, struct err *err)
{
	int fd = openat(t->dir_fd, t->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? result_error(err, errno, "cannot open", t->name) : fd;
}

/* A struct fiemap and room for its extents. */
struct map {
	_Alignas(struct fiemap) char bytes[sizeof(struct fiemap) +
	                                   EXTENTS * sizeof(struct fiemap_extent)];
};

/* NULL: it cannot be told. */
static const struct fiemap *read_map(int fd, uint64_t at, struct map *map)
{
	struct fiemap *head = (struct fiemap *)(void *)map->bytes;

	memset(map, 0, sizeof(*map));
	head->fm_start = at;
	head->fm_length = UINT64_MAX - at;
	head->fm_extent_count = EXTENTS;
	return ioctl(fd, FS_IOC_FIEMAP, head) < 0 || head->fm_mapped_extents > EXTENTS ? NULL
	                                                                               : head;
}

static bool is_same_extent(const struct fiemap_extent *a, const struct fiemap_extent *b)
{
	const uint32_t flags = a->fe_flags & ~EXTENT_MARKS;

	return a->fe_logical == b->fe_logical && a->fe_physical == b->fe_physical &&
	       a->fe_length == b->fe_length && a->fe_physical != 0 &&
	       flags == (b->fe_flags & ~EXTENT_MARKS) &&
	       (flags & ~(FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_UNWRITTEN)) == 0;
}

static bool is_same_place(int a_fd, int b_fd)
{
	struct map a_map, b_map;
	uint64_t at = 0;

	for (;;) {
		const struct fiemap *a = read_map(a_fd, at, &a_map),
				    *b = read_map(b_fd, at, &b_map);
		const struct fiemap_extent *last;
		uint32_t n;

		if (!a || !b || a->fm_mapped_extents != b->fm_mapped_extents)
			return false;
		n = a->fm_mapped_extents;
		for (uint32_t i = 0; i < n; i++)
			if (!is_same_extent(&a->fm_extents[i], &b->fm_extents[i]))
				return false;
		if (n == 0)
			return true; /* holes to the end: the sizes are the same */
		last = &a->fm_extents[n - 1];
		if ((last->fe_flags & b->fm_extents[n - 1].fe_flags & FIEMAP_EXTENT_LAST) != 0)
			return true;
		at = last->fe_logical + last->fe_length;
	}
}

static ssize_t read_chunk(int fd, char *chunk, size_t size, uint64_t at)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = pread(fd, chunk + len, size - len, (off_t)(at + len));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)MAX(n, 0);
	}
	return (ssize_t)len;
}

/* 1: they differ. Nobody writes to them: they are of snapshots. */
static int compare_bytes(int a_fd, int b_fd, uint64_t size, const char *name, struct err *err)
{
	for (uint64_t at = 0; at < size; at += CHUNK) {
		const size_t len = (size_t)MIN(size - at, (uint64_t)CHUNK);
		ssize_t n = read_chunk(a_fd, data.old, len, at);
		ssize_t m = read_chunk(b_fd, data.now, len, at);

		if (n < 0 || m < 0)
			return result_error(err, (int)-MIN(n, m), "cannot read", name);
		if (n != m || memcmp(data.old, data.now, (size_t)n) != 0)
			return 1;
	}
	return 0;
}

static int compare_files(const struct entry_version *old, const struct entry_version *now,
                         enum kinship kin, struct err *err)
{
	auto_fd int a_fd = -1, b_fd = -1;

	if (old->st.st_size != now->st.st_size)
		return 1;
	if (old->st.st_size == 0)
		return 0;
	a_fd = open_thing(old, err);
	if (a_fd < 0)
		return a_fd;
	b_fd = open_thing(now, err);
	if (b_fd < 0)
		return b_fd;
	if (kin == KIN_LAYERS && is_same_place(a_fd, b_fd))
		return 0;
	return compare_bytes(a_fd, b_fd, (uint64_t)old->st.st_size, old->name, err);
}

static int compare_links(const struct entry_version *old, const struct entry_version *now,
                         struct err *err)
{
	char a[PATH_MAX], b[PATH_MAX];
	ssize_t n = readlinkat(old->dir_fd, old->name, a, sizeof(a));
	ssize_t m = readlinkat(now->dir_fd, now->name, b, sizeof(b));

	if (n < 0 || m < 0)
		return result_error(err, errno, "cannot read the link", old->name);
	return n != m || memcmp(a, b, (size_t)n) != 0;
}

static int compare_content(const struct entry_version *old, const struct entry_version *now,
                           enum kinship kin, struct err *err)
{
	if (S_ISREG(old->st.st_mode))
		return compare_files(old, now, kin, err);
	if (S_ISLNK(old->st.st_mode))
		return compare_links(old, now, err);
	return !S_ISDIR(old->st.st_mode) && old->st.st_rdev != now->st.st_rdev;
}

/* A path to it that no link of its own name is followed in, for the calls that have no other. */
static void attribute_path(const struct entry_version *t, char ret[PATH_MAX])
{
	(void)snprintf(ret, PATH_MAX, "/proc/self/fd/%d/%.255s", t->dir_fd, t->name);
}

static ssize_t list_attributes(const struct entry_version *t, char *ret_names)
{
	char path[PATH_MAX];
	ssize_t n;

	attribute_path(t, path);
	n = llistxattr(path, ret_names, NAMES_MAX);
	return n < 0 && errno != EOPNOTSUPP ? -errno : MAX(n, (ssize_t)0);
}

bool entry_version_keeps_attribute(const char *name)
{
	return (strncmp(name, "user.", 5) == 0 &&
	        strncmp(name, OVERLAY_MARKS, sizeof(OVERLAY_MARKS) - 1) != 0) ||
	       strcmp(name, "system.posix_acl_access") == 0 ||
	       strcmp(name, "system.posix_acl_default") == 0;
}

static ssize_t read_attribute(const struct entry_version *t, const char *name, char *value)
{
	char path[PATH_MAX];

	attribute_path(t, path);
	return lgetxattr(path, name, value, NAMES_MAX);
}

/* Each of a's is in b, with the same value; *ret_n: how many there are. */
static bool has_attributes(const struct entry_version *a, const struct entry_version *b, size_t len,
                           size_t *ret_n)
{
	size_t n = 0;

	for (const char *name = names.old; name < names.old + len; name += strlen(name) + 1) {
		ssize_t xn, yn;

		if (!entry_version_keeps_attribute(name))
			continue;
		n++;
		xn = read_attribute(a, name, values.old);
		yn = read_attribute(b, name, values.now);
		if (xn < 0 || xn != yn || memcmp(values.old, values.now, (size_t)xn) != 0)
			return false;
	}
	*ret_n = n;
	return true;
}

static size_t count_kept(const char *list, size_t len)
{
	size_t n = 0;

	for (const char *name = list; name < list + len; name += strlen(name) + 1)
		n += entry_version_keeps_attribute(name);
	return n;
}

static int compare_attributes(const struct entry_version *old, const struct entry_version *now,
                              struct err *err)
{
	ssize_t an = list_attributes(old, names.old), bn = list_attributes(now, names.now);
	size_t n = 0;

	if (an < 0 || bn < 0)
		return result_error(err, (int)-MIN(an, bn), "cannot list the attributes of",
		                    old->name);
	if (an == 0 && bn == 0)
		return 0;
	return !has_attributes(old, now, (size_t)an, &n) || n != count_kept(names.now, (size_t)bn);
}

int entry_versions_differ(const struct entry_version *old, const struct entry_version *now,
                          enum kinship kin, uint32_t *ret, struct err *err)
{
	int r;

	*ret = 0;
	if (!old->is_there || !now->is_there) {
		if (old->is_there != now->is_there)
			*ret = now->is_there ? CHANGE_ADDED : CHANGE_DELETED;
		return 0;
	}
	if (kin == KIN_ONE)
		return 0;
	if ((old->st.st_mode & S_IFMT) != (now->st.st_mode & S_IFMT)) {
		*ret = CHANGE_TYPE;
		return 0;
	}
	if (old->st.st_mode != now->st.st_mode)
		*ret |= CHANGE_MODE;
	if (old->st.st_uid != now->st.st_uid || old->st.st_gid != now->st.st_gid)
		*ret |= CHANGE_OWNER;
	r = compare_content(old, now, kin, err);
	if (r < 0)
		return r;
	*ret |= r ? CHANGE_CONTENT : 0;
	r = compare_attributes(old, now, err);
	if (r < 0)
		return r;
	*ret |= r ? CHANGE_ATTRIBUTES : 0;
	return 0;
}
