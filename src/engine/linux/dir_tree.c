// SPDX-License-Identifier: Apache-2.0
#include "engine/linux/dir_tree.h"

#include "base/fs/dir_reader.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * A guest may have made the tree too deep for our fds or stack. So nothing recurses: each directory
 * is moved up to the top as "rm.N" and emptied in its turn.
 */
static int empty(int top_fd, const char *path, unsigned *n)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *entry;
	int r = dir_open(&dir, top_fd, path);

	while (r == 0 && (entry = dir_next(&dir))) {
		char name[32];

		if (unlinkat(dir.fd, entry, 0) == 0 || unlinkat(dir.fd, entry, AT_REMOVEDIR) == 0)
			continue;
		do {
			(void)snprintf(name, sizeof(name), "rm.%u", (*n)++);
			r = renameat2(dir.fd, entry, top_fd, name, RENAME_NOREPLACE) < 0 ? -errno
			                                                                 : 0;
		} while (r == -EEXIST);
	}
	return r < 0 ? r : dir.error;
}

/* One pass over the entries of the top directory. */
static int empty_children(int top_fd, unsigned *n, bool *ret_left)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *entry;
	int r = dir_open(&dir, top_fd, ".");

	*ret_left = false;
	while (r == 0 && (entry = dir_next(&dir))) {
		*ret_left = true;
		if (unlinkat(top_fd, entry, 0) == 0)
			continue;
		r = empty(top_fd, entry, n);
		if (r == 0 && unlinkat(top_fd, entry, AT_REMOVEDIR) < 0)
			r = -errno;
	}
	return r < 0 ? r : dir.error;
}

int dir_tree_remove(int dir_fd, const char *name)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	unsigned n = 0;
	bool left = true;
	int r = 0;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
	while (r == 0 && left)
		r = empty_children(fd, &n, &left);
	if (r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

void dir_tree_each_id(int dir_fd, void (*fn)(const char *id, void *arg), void *arg)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;

	(void)!dir_open(&dir, dir_fd, ".");
	while ((name = dir_next(&dir)))
		if (id_is_valid(name, "sb"))
			fn(name, arg);
	dir_tell(&dir, "sandboxes");
}
