// SPDX-License-Identifier: Apache-2.0
#include "engine/layer/shared_tmpfs.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static const struct {
	const char *path;
	unsigned major_nr, minor_nr;
} nodes[] = {
	{SHARED_TMPFS_DEV "/null", 1, 3},    {SHARED_TMPFS_DEV "/zero", 1, 5},
	{SHARED_TMPFS_DEV "/full", 1, 7},    {SHARED_TMPFS_DEV "/random", 1, 8},
	{SHARED_TMPFS_DEV "/urandom", 1, 9}, {SHARED_TMPFS_DEV "/tty", 5, 0},
	{SHARED_TMPFS_KVM, 10, 232},
};

static const struct {
	const char *path, *target;
} links[] = {
	{SHARED_TMPFS_DEV "/fd", "/proc/self/fd"},
	{SHARED_TMPFS_DEV "/stdin", "/proc/self/fd/0"},
	{SHARED_TMPFS_DEV "/stdout", "/proc/self/fd/1"},
	{SHARED_TMPFS_DEV "/stderr", "/proc/self/fd/2"},
	{SHARED_TMPFS_DEV "/ptmx", "pts/ptmx"},
};

static const char *const dirs[] = {
	SHARED_TMPFS_EMPTY_DIR,  SHARED_TMPFS_CRIU,       SHARED_TMPFS_DEV,
	SHARED_TMPFS_DEV "/pts", SHARED_TMPFS_DEV "/shm",
};

static int make_node(int fd, size_t i)
{
	dev_t number = makedev(nodes[i].major_nr, nodes[i].minor_nr);

	if (mknodat(fd, nodes[i].path, S_IFCHR | 0600, number) < 0 ||
	    fchmodat(fd, nodes[i].path, 0666, 0) < 0)
		return -errno;
	return 0;
}

static int fill(int fd)
{
	auto_fd int empty = -1;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
		r = mkdirat(fd, dirs[i], 0755) < 0 ? -errno : 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(nodes); i++)
		r = make_node(fd, i);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(links); i++)
		r = symlinkat(links[i].target, fd, links[i].path) < 0 ? -errno : 0;
	if (r == 0)
		empty = openat(fd, SHARED_TMPFS_EMPTY_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		               0444);
	return r == 0 && empty < 0 ? -errno : r;
}

static int mount_and_fill(struct shared_tmpfs *s)
{
	const unsigned long flags = MS_NOSUID | MS_NOEXEC;
	int r;

	if (mount("tmpfs", s->path, "tmpfs", flags, "mode=755,size=64k,nr_inodes=64") < 0)
		return -errno;
	s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = s->fd < 0 ? -errno : fill(s->fd);
	if (r == 0 &&
	    mount(NULL, s->path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL) < 0)
		r = -errno;
	return r;
}

int shared_tmpfs_open(struct shared_tmpfs *s, const char *run_dir, struct err *err)
{
	int r;

	*s = (struct shared_tmpfs){.fd = -1, .path = xasprintf("%s/stage", run_dir)};
	if (mkdir(s->path, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", s->path);
	/* One that a killed broker left behind. */
	while (umount2(s->path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		;
	r = mount_and_fill(s);
	return r < 0 ? err_set(err, ERR_UNSUPPORTED, -r, "cannot make what all sandboxes share")
	             : 0;
}

void shared_tmpfs_close(struct shared_tmpfs *s)
{
	if (!s->path)
		return;
	if (s->fd >= 0)
		(void)close(take_fd(&s->fd));
	(void)umount2(s->path, MNT_DETACH | UMOUNT_NOFOLLOW);
	(void)rmdir(s->path);
	free(take_ptr(s->path));
}

int shared_tmpfs_copy(const struct shared_tmpfs *s, int *ret_fd, struct err *err)
{
	struct mount_attr attr = {.propagation = MS_PRIVATE};
	auto_fd int fd = open_tree(s->fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_set(err, ERR_INTERNAL, errno,
		               "cannot copy the mount of the shared tmpfs");
	*ret_fd = take_fd(&fd);
	return 0;
}
