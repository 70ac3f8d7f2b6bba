// SPDX-License-Identifier: Apache-2.0
#include "base/fs/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define TRIES 1000

int beneath_resolve(int dir_fd, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC,
	                       .resolve = resolve | RESOLVE_NO_MAGICLINKS};
	int fd = -1;

	errno = EAGAIN;
	for (unsigned i = 0; fd < 0 && errno == EAGAIN && i < TRIES; i++)
		fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

int beneath_open(int dir_fd, const char *path, int flags)
{
	return beneath_resolve(dir_fd, path, flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

/* Makes one directory at a time, each from its parent's fd: no part of the path is resolved
 * twice. */
static int make_dirs(int dir_fd, const char *path)
{
	auto_fd int dir = beneath_open(dir_fd, ".", O_PATH | O_DIRECTORY);

	while (dir >= 0 && *path) {
		size_t len = strcspn(path, "/");
		auto_free char *name = xstrndup(path, len);
		int next;

		if (mkdirat(dir, name, 0777) < 0 && errno != EEXIST)
			return -errno;
		next = beneath_open(dir, name, O_PATH | O_DIRECTORY);
		if (next < 0)
			return next;
		(void)close(dir);
		dir = next;
		path += len + (path[len] == '/');
	}
	return take_fd(&dir);
}

int beneath_parent(int dir_fd, const char *path, bool make, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	auto_free char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	int fd = beneath_open(dir_fd, dir, O_PATH | O_DIRECTORY);

	/* A whole path may be longer than the kernel accepts; its single names are not. */
	if ((fd == -ENOENT || fd == -ENAMETOOLONG) && make)
		fd = make_dirs(dir_fd, dir);
	*ret_name = slash ? slash + 1 : path;
	return fd;
}
