// SPDX-License-Identifier: Apache-2.0
#include "engine/layer/own_tmpfs.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Large enough also for the machine view of a host with many CPUs (machine_view.h). */
#define SIZE "4m"

struct node {
	const char *path;
	unsigned major_nr, minor_nr;
};

static const struct node nodes[] = {
	{OWN_TMPFS_DEV "/null", 1, 3},    {OWN_TMPFS_DEV "/zero", 1, 5},
	{OWN_TMPFS_DEV "/full", 1, 7},    {OWN_TMPFS_DEV "/random", 1, 8},
	{OWN_TMPFS_DEV "/urandom", 1, 9}, {OWN_TMPFS_DEV "/tty", 5, 0},
};
static const struct node kvm = {OWN_TMPFS_KVM, 10, 232};

static const struct {
	const char *path, *target;
} links[] = {
	{OWN_TMPFS_DEV "/fd", "/proc/self/fd"},       {OWN_TMPFS_DEV "/stdin", "/proc/self/fd/0"},
	{OWN_TMPFS_DEV "/stdout", "/proc/self/fd/1"}, {OWN_TMPFS_DEV "/stderr", "/proc/self/fd/2"},
	{OWN_TMPFS_DEV "/ptmx", "pts/ptmx"},
};

static const char *const dirs[] = {
	OWN_TMPFS_EMPTY_DIR,
	OWN_TMPFS_DEV,
	OWN_TMPFS_DEV "/pts",
	OWN_TMPFS_DEV "/shm",
};

static int make_node(int fd, const struct node *node)
{
	if (mknodat(fd, node->path, S_IFCHR | 0600, makedev(node->major_nr, node->minor_nr)) < 0 ||
	    fchmodat(fd, node->path, 0666, 0) < 0)
		return -errno;
	return 0;
}

static int fill(int fd)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
		r = mkdirat(fd, dirs[i], 0755) < 0 ? -errno : 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(nodes); i++)
		r = make_node(fd, &nodes[i]);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(links); i++)
		r = symlinkat(links[i].target, fd, links[i].path) < 0 ? -errno : 0;
	if (r == 0)
		r = mknodat(fd, OWN_TMPFS_EMPTY_FILE, S_IFREG | 0444, 0) < 0 ? -errno : 0;
	return r;
}

/* Not nodev, because it has device nodes. */
static int mount_detached(int *ret_fd)
{
	auto_fd int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int fd;

	if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "source", "tmpfs", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "size", SIZE, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int own_tmpfs_make(int *ret_fd, struct err *err)
{
	auto_fd int fd = -1;
	int r = mount_detached(&fd);

	if (r == 0)
		r = fill(fd);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot make a tmpfs of devices");
	*ret_fd = take_fd(&fd);
	return 0;
}

int own_tmpfs_make_sealed(int *ret_fd, struct err *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	auto_fd int fd = -1;
	int r = own_tmpfs_make(&fd, err);

	if (r < 0)
		return r;
	r = make_node(fd, &kvm);
	if (r == 0 && mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot seal a tmpfs of devices");
	*ret_fd = take_fd(&fd);
	return 0;
}
