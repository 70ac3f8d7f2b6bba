// SPDX-License-Identifier: Apache-2.0
#include "agent/fileops/place.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define LINKS_MAX 40 /* as the kernel's own walk */

void place_done(struct place *p)
{
	if (p->dir_fd >= 0)
		(void)close(p->dir_fd);
	p->dir_fd = -1;
}

/* Splits off the last name; dir is "." or ends in '/'. */
static int split(const char *path, char dir[PATH_MAX], char name[NAME_MAX + 1])
{
	size_t end = strlen(path), at;

	if (end >= PATH_MAX)
		return -ENAMETOOLONG;
	while (end > 0 && path[end - 1] == '/')
		end--;
	for (at = end; at > 0 && path[at - 1] != '/'; at--)
		;
	if (end - at > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, path + at, end - at);
	name[end - at] = '\0';
	if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -EISDIR;
	(void)snprintf(dir, PATH_MAX, "%.*s", (int)(at ? at : 1), at ? path : ".");
	return 0;
}

/* Makes each missing directory on the way; what is there is judged by the open() afterwards. */
static int make_dirs(char *dir)
{
	for (char *at = dir + (dir[0] == '/'); *at; at++) {
		int r;

		if (*at != '/')
			continue;
		*at = '\0';
		r = mkdir(dir, 0777) < 0 && errno != EEXIST ? -errno : 0;
		*at = '/';
		if (r < 0 && r != -EACCES && r != -EROFS && r != -EPERM)
			return r;
	}
	return 0;
}

int place_find(const char *path, bool make_parents, struct place *ret, struct err *err)
{
	char dir[PATH_MAX];
	int r = split(path, dir, ret->name);

	if (r < 0)
		return err_set(err, ERR_FILE_INVALID, -r, "'%.200s'", path);
	ret->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir_fd < 0 && errno == ENOENT && make_parents) {
		r = make_dirs(dir);
		if (r < 0)
			return err_set(err, ERR_FILE_INVALID, -r, "cannot make '%.200s'", dir);
		ret->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	if (ret->dir_fd < 0)
		return err_set(err, ERR_FILE_INVALID, errno,
		               "cannot enter the directory of '%.200s'", path);
	return 0;
}

int place_follow(struct place *p, struct err *err)
{
	char target[PATH_MAX], dir[PATH_MAX];

	for (int i = 0; i < LINKS_MAX; i++) {
		ssize_t n = readlinkat(p->dir_fd, p->name, target, sizeof(target) - 1);
		int fd, r;

		if (n < 0)
			return 0; /* not there, or no link */
		target[n] = '\0';
		r = split(target, dir, p->name);
		if (r < 0)
			return err_set(err, ERR_FILE_INVALID, -r, "the link to '%.200s'", target);
		fd = openat(p->dir_fd, dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return err_set(err, ERR_FILE_INVALID, errno, "the link to '%.200s'",
			               target);
		place_done(p);
		p->dir_fd = fd;
	}
	return err_set(err, ERR_FILE_INVALID, ELOOP, "too many links at '%s'", p->name);
}
