// SPDX-License-Identifier: Apache-2.0
/*
 * A directory on a file system that all nodes share. An object is written under a name of its own
 * in tmp, brought to disk, and renamed; NFS has neither nameless files nor renames that replace
 * nothing, and no name needs them here. The directory was opened once: what is mounted over it
 * later is not used.
 */
#include "member/objects/store_backend.h"

#include "base/fd.h"
#include "base/id.h"
#include "base/units.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct store_backend {
	char *path;
	int fd;
};

static int fault_of(const struct store_backend *b, int error, struct store_fault *fault)
{
	static const struct {
		int error;
		enum trouble trouble;
	} rows[] = {
		{ENOENT, TROUBLE_STORE_MISSING}, {ENOTDIR, TROUBLE_STORE_MISSING},
		{EACCES, TROUBLE_STORE_RIGHTS},  {EPERM, TROUBLE_STORE_RIGHTS},
		{EROFS, TROUBLE_STORE_RIGHTS},   {ENOSPC, TROUBLE_STORE_FULL},
		{EDQUOT, TROUBLE_STORE_FULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].error == error)
			return store_fail(fault, rows[i].trouble, false, "%s: %s", b->path,
			                  strerror(error));
	return store_fail(fault, TROUBLE_STORE_UNREACHABLE, true, "%s: %s", b->path,
	                  strerror(error));
}

/* Root opens it before the worker is confined; later it is tried as who the worker is. */
static void open_top(struct store_backend *b)
{
	if (b->fd < 0)
		b->fd = open(b->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int directory_open(const struct object_location *l, const struct object_credentials *c,
                          struct store_backend **ret)
{
	struct store_backend *b = xnew0(struct store_backend);

	(void)c;
	b->path = xstrdup(l->directory);
	b->fd = -1;
	open_top(b);
	*ret = b;
	return 0;
}

/* The directories of a name, which has three. */
static int make_dirs(const struct store_backend *b, const char *name)
{
	for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
		auto_free char *dir = xstrndup(name, (size_t)(slash - name));

		if (mkdirat(b->fd, dir, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static int write_file(const struct store_backend *b, const char *name, const void *data, size_t len)
{
	auto_fd int fd = openat(b->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : fd_write_all(fd, data, len);

	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

/* The name is on disk, too, before anybody counts on it. */
static int sync_parent(const struct store_backend *b, const char *name)
{
	auto_free char *dir = xstrndup(name, (size_t)(strrchr(name, '/') - name));
	auto_fd int fd = openat(b->fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int directory_put(struct store_backend *b, const char *name, const void *data, size_t len,
                         bool is_new, uint64_t *ret_written_us, struct store_fault *fault)
{
	char id[ID_SIZE], draft[sizeof("v1/tmp/") + ID_SIZE];
	struct stat st;
	int r;

	open_top(b);
	if (b->fd < 0)
		return fault_of(b, errno, fault);
	if (is_new && fstatat(b->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	    (size_t)st.st_size == len) {
		*ret_written_us = (uint64_t)st.st_mtime * SECOND_US;
		return -EEXIST;
	}
	id_make(id, "tmp");
	(void)snprintf(draft, sizeof(draft), "v1/tmp/%s", id);
	r = make_dirs(b, draft);
	if (r == 0)
		r = make_dirs(b, name);
	if (r == 0)
		r = write_file(b, draft, data, len);
	if (r == 0 && renameat(b->fd, draft, b->fd, name) < 0)
		r = -errno;
	if (r == 0)
		r = sync_parent(b, name);
	if (r == 0)
		return 0;
	(void)unlinkat(b->fd, draft, 0);
	return fault_of(b, -r, fault);
}

static int directory_get(struct store_backend *b, const char *name, struct buf *out,
                         struct store_fault *fault)
{
	auto_fd int fd = -1;
	struct stat st;
	char *room;
	int r;

	open_top(b);
	if (b->fd < 0)
		return fault_of(b, errno, fault);
	fd = openat(b->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return store_fail(fault, TROUBLE_STORE_ABSENT, false, "%s/%s is not there", b->path,
		                  name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return fault_of(b, errno, fault);
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > buf_room(out) ||
	    buf_reserve(out, (size_t)st.st_size, &room) < 0)
		return store_fail(fault, TROUBLE_STORE_DAMAGED, false, "%s/%s has another size",
		                  b->path, name);
	r = fd_read_all(fd, room, (size_t)st.st_size);
	if (r == -EPIPE || r == -ENODATA)
		return store_fail(fault, TROUBLE_STORE_DAMAGED, true, "%s/%s was cut", b->path,
		                  name);
	if (r < 0)
		return fault_of(b, -r, fault);
	buf_commit(out, (size_t)st.st_size);
	return 0;
}

static int directory_remove(struct store_backend *b, const char *name, struct store_fault *fault)
{
	open_top(b);
	if (b->fd < 0 || (unlinkat(b->fd, name, 0) < 0 && errno != ENOENT))
		return fault_of(b, errno, fault);
	return 0;
}

static int directory_stat(struct store_backend *b, const char *name, uint64_t *ret_written_us,
                          struct store_fault *fault)
{
	struct stat st;

	open_top(b);
	if (b->fd < 0)
		return fault_of(b, errno, fault);
	if (fstatat(b->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? store_fail(fault, TROUBLE_STORE_ABSENT, false,
		                                    "%s/%s is not there", b->path, name)
		                       : fault_of(b, errno, fault);
	*ret_written_us = (uint64_t)st.st_mtime * SECOND_US;
	return 0;
}

/* One folder, without those below it. What is no plain file is nothing that was put there. */
static int list_one(struct store_backend *b, const char *folder, object_entry_fn fn, void *arg,
                    struct store_fault *fault)
{
	int fd = openat(b->fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir && errno == ENOENT)
		return 0;
	if (!dir) {
		r = fault_of(b, errno, fault);
		close_fd(&fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir))) {
		auto_free char *name = xasprintf("%s%s", folder, entry->d_name);
		struct object_entry one = {.key = name};
		struct stat st;

		if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		one.written_us = (uint64_t)st.st_mtime * SECOND_US;
		one.bytes = (uint64_t)st.st_size;
		r = fn(&one, arg);
	}
	if (r == 0 && errno != 0)
		r = fault_of(b, errno, fault);
	(void)closedir(dir);
	return r;
}

/* One after the other: "00/", "01/" … of chunks and manifests; all others have no folders. */
static int directory_list(struct store_backend *b, const char *folder, char at[STORE_AT_SIZE],
                          object_entry_fn fn, void *arg, struct store_fault *fault)
{
	const bool is_split = strcmp(folder, object_folder(false)) == 0 ||
	                      strcmp(folder, object_folder(true)) == 0;
	const unsigned long n = is_split ? strtoul(at, NULL, 16) : 0;
	auto_free char *one = is_split ? xasprintf("%s%02lx/", folder, n & 0xff) : xstrdup(folder);
	int r;

	open_top(b);
	if (b->fd < 0)
		return fault_of(b, errno, fault);
	r = list_one(b, one, fn, arg, fault);
	at[0] = '\0';
	if (is_split && n < 0xff)
		(void)snprintf(at, STORE_AT_SIZE, "%02lx", n + 1);
	return r;
}

const struct store_kind store_directory = {
	.open = directory_open,
	.put = directory_put,
	.get = directory_get,
	.stat = directory_stat,
	.remove = directory_remove,
	.list = directory_list,
};
