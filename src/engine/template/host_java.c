// SPDX-License-Identifier: Apache-2.0
#include "engine/template/host_java.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "engine/template/skeleton.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX (256 << 10)

static const char *const dirs[] = {"", "/security", "/security/policy",
                                   "/security/policy/unlimited"};
static const char *const files[] = {
	"jvm-amd64.cfg",
	"jvm-arm64.cfg",
	"jvm-aarch64.cfg",
	"security/java.policy",
	"security/java.security",
	"security/policy/unlimited/default_US_export.policy",
	"security/policy/unlimited/default_local.policy",
};

/* One that is not there, or is not for everybody's eyes, is left out. */
static int copy_file(int from_fd, const char *java, const char *name, int root_fd)
{
	auto_fd int fd = openat(from_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	auto_call(buf_done) struct buf data = BUF_INIT(FILE_MAX);
	char path[PATH_MAX], *room;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH) ||
	    buf_reserve(&data, (size_t)st.st_size, &room) < 0)
		return 0;
	r = fd_read_all(fd, room, (size_t)st.st_size);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "etc/%s/%s", java, name);
	return skeleton_file(root_fd, path, 0644, 0, room, (size_t)st.st_size);
}

static int copy_all(int from_fd, const char *java, int root_fd)
{
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++) {
		(void)snprintf(path, sizeof(path), "etc/%s%s", java, dirs[i]);
		r = skeleton_dir(root_fd, path, 0755, 0);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
		r = copy_file(from_fd, java, files[i], root_fd);
	return r;
}

/* "java-17-openjdk" */
static bool is_java(const char *name)
{
	static const char end[] = "-openjdk";
	size_t len = strlen(name);

	return strncmp(name, "java-", 5) == 0 && len > sizeof(end) &&
	       strcmp(name + len - (sizeof(end) - 1), end) == 0;
}

int host_java_copy(int root_fd)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;
	int r = 0;

	if (dir_open(&dir, AT_FDCWD, "/etc") < 0)
		return 0;
	while (r == 0 && (name = dir_next(&dir))) {
		auto_fd int fd = is_java(name)
		                         ? openat(dir.fd, name,
		                                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
		                         : -1;

		if (fd >= 0)
			r = copy_all(fd, name, root_fd);
	}
	return r < 0 ? r : dir.error;
}
