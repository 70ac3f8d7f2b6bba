// SPDX-License-Identifier: Apache-2.0
/*
 * Mounts a volume. Hostile code may have run in this root before, so the path is walked part by
 * part and no link is followed; anything in the way fails the start with an error. Nothing of the
 * guest runs yet. Missing directories are made as the guest's root.
 */
#include "engine/jail/jail_child.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

static int open_part(int dir_fd, const char *name)
{
	int fd;

	if (mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_place(const char *path)
{
	auto_fd int fd = openat(AT_FDCWD, "r", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char name[VOLUME_PATH_SIZE];

	if (fd < 0)
		return -errno;
	while (*path == '/') {
		size_t len = strcspn(++path, "/");
		int next;

		(void)snprintf(name, sizeof(name), "%.*s", (int)len, path);
		next = open_part(fd, name);
		if (next < 0)
			return next;
		(void)close(fd);
		fd = next;
		path += len;
	}
	return take_fd(&fd);
}

static int mount_one(const struct guest_volume *v, int mount_fd, struct err *err)
{
	auto_fd int place = open_place(v->path);

	if (place == -ENOTDIR || place == -ELOOP) {
		(void)err_set(err, ERR_CONFLICT, -place,
		              "no volume can be put at '%s': a file or link is in the way",
		              v->path);
		return err_hint(err, "remove it, or take another path");
	}
	if (place < 0)
		return err_set(err, ERR_INTERNAL, -place, "cannot make '%s' for a volume", v->path);
	if (move_mount(mount_fd, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
	    0)
		return err_set(err, ERR_INTERNAL, errno, "cannot attach a volume");
	return 0;
}

int jail_mount_volumes(struct jail *jail, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < VOLUMES_MAX; i++) {
		if (jail->volume_fds[i] < 0)
			continue;
		r = mount_one(&jail->spec->volumes[i], jail->volume_fds[i], err);
		(void)close(take_fd(&jail->volume_fds[i]));
	}
	return r;
}
