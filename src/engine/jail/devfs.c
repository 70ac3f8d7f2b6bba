// SPDX-License-Identifier: Apache-2.0
/* /dev: a tmpfs with six nodes of the host's, a devpts of its own, and shared memory. */
#include "engine/jail/child.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The host's terminals are few (kernel.pty.max): a sandbox gets its share and no more. */
#define PTS_OPTIONS "newinstance,ptmxmode=0666,mode=0620,gid=5,max=256"

static const struct {
	const char *name;
	unsigned major_nr, minor_nr;
} nodes[] = {
	{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
	{"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

static const struct {
	const char *name, *target;
} links[] = {
	{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

static int bind_node(size_t i, struct err *err)
{
	/* Read-only: it forbids touching the host's inode, not writing to the device. */
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
	                                      MOUNT_ATTR_NOEXEC};
	char from[32], to[32];
	auto_fd int fd = -1;
	struct stat st;

	(void)snprintf(from, sizeof(from), "/dev/%s", nodes[i].name);
	(void)snprintf(to, sizeof(to), "r/dev/%s", nodes[i].name);
	fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || mount(from, to, NULL, MS_BIND, NULL) < 0 ||
	    mount_setattr(AT_FDCWD, to, 0, &attr, sizeof(attr)) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot bind %s", from);
	if (lstat(to, &st) < 0 || !S_ISCHR(st.st_mode) ||
	    st.st_rdev != makedev(nodes[i].major_nr, nodes[i].minor_nr))
		return err_set(err, ERR_INTERNAL, ENODEV,
		               "%s of this host is not what it should be", from);
	return 0;
}

int jail_mount_dev(struct jail *jail, struct err *err)
{
	char shm[64];

	if (mount("tmpfs", "r/dev", "tmpfs", MS_NOSUID | MS_NOEXEC,
	          "mode=755,size=64k,nr_inodes=64") < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount a tmpfs");
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		int r = bind_node(i, err);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "r/dev/%s", links[i].name);
		if (symlink(links[i].target, path) < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot link %s", path);
	}
	if (mkdir("r/dev/pts", 0755) < 0 ||
	    mount("devpts", "r/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, PTS_OPTIONS) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount devpts");
	/* What is in it counts as memory of whoever wrote it; half of the limit leaves room. */
	(void)snprintf(shm, sizeof(shm), "mode=1777,nr_inodes=65536,size=%" PRIu64,
	               jail->spec->limits.memory_bytes / 2);
	if (mkdir("r/dev/shm", 0755) < 0 ||
	    mount("tmpfs", "r/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, shm) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount /dev/shm");
	/* The directory itself needs no more entries. */
	if (mount(NULL, "r/dev", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC,
	          NULL) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make /dev read-only");
	return 0;
}
