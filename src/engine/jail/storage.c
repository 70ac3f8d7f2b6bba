// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/storage.h"

#include "base/spawn.h"
#include "engine/jail/btrfs.h"
#include "engine/jail/loopdev.h"
#include "engine/jail/tree.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define IMAGE_SIZE_MIN (UINT64_C(1) << 30)

static bool is_on_btrfs(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
}

static bool is_mount_point(const char *path, const char *parent)
{
	struct stat a, b;

	return stat(path, &a) == 0 && stat(parent, &b) == 0 && a.st_dev != b.st_dev;
}

/* The image gets its name once it holds a whole filesystem. */
static int make_image(const char *data_dir, const char *image, struct err *err)
{
	auto_free char *temp = xasprintf("%s.new", image);
	auto_fd int fd = open(temp, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	const char *const mkfs[] = {"mkfs.btrfs", "-q", "-K", "-m", "single", temp, NULL};
	struct statfs fs;
	uint64_t size;
	int r;

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", temp);
	size = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize / 10 * 9 & ~UINT64_C(0xfffff);
	if (size < IMAGE_SIZE_MIN) {
		(void)unlink(temp);
		return err_set(err, ERR_CAPACITY, ENOSPC, "less than 1 GiB is free in '%s'",
		               data_dir);
	}
	if (ftruncate(fd, (off_t)size) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot size '%s'", temp);
	r = spawn_run(mkfs, err);
	if (r == 0 && (fsync(fd) < 0 || rename(temp, image) < 0))
		r = err_set(err, ERR_INTERNAL, errno, "cannot finish '%s'", image);
	if (r < 0)
		(void)unlink(temp);
	return r;
}

static int mount_image(const char *image, const char *path, struct err *err)
{
	/* Our own quota limits decide before the filesystem is full; discard gives the host back
	 * what deleted layers held. */
	static const char options[] = "discard=async";
	auto_fd int loop_fd = -1;
	char device[LOOPDEV_SIZE];
	int r = loopdev_attach(image, /* is_read_only= */ false, device, &loop_fd, err);

	if (r < 0)
		return r;
	if (mount(device, path, "btrfs", MS_NOATIME | MS_NOSUID | MS_NODEV, options) < 0)
		return err_set(err, ERR_UNSUPPORTED, errno, "cannot mount '%s'", image);
	return 0;
}

static int open_btrfs(struct storage *s, const char *data_dir, struct err *err)
{
	auto_free char *image = xasprintf("%s/layers.btrfs", data_dir);
	int r;

	if (is_mount_point(s->path, data_dir) && is_on_btrfs(s->path)) {
		s->is_mounted = true;
		return 0;
	}
	if (is_on_btrfs(data_dir))
		return 0;
	if (access(image, F_OK) < 0) {
		r = make_image(data_dir, image, err);
		if (r < 0)
			return r;
	}
	r = mount_image(image, s->path, err);
	s->is_mounted = r == 0;
	return r;
}

int storage_open(struct storage *s, const char *data_dir, bool is_plain, struct err *err)
{
	int r;

	*s = (struct storage){.fd = -1, .path = xasprintf("%s/layers", data_dir)};
	if (mkdir(s->path, 0700) < 0 && errno != EEXIST) {
		r = err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", s->path);
		goto failed;
	}
	r = is_plain ? 0 : open_btrfs(s, data_dir, err);
	if (r < 0)
		goto failed;
	s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->fd < 0 || fchmod(s->fd, 0700) < 0) {
		r = err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", s->path);
		goto failed;
	}
	s->is_btrfs = !is_plain;
	r = is_plain ? 0 : btrfs_quota_on(s->fd);
	if (r < 0) {
		r = err_set(err, ERR_UNSUPPORTED, -r, "cannot switch btrfs quotas on");
		goto failed;
	}
	if (!is_plain)
		btrfs_prune_quota(s->fd);
	s->counts_once = !is_plain && btrfs_counts_once(s->fd);
	return 0;

failed:
	err_hint(err, "install btrfs-progs and allow loop devices, or start with --plain-storage "
	              "and do without disk limits");
	storage_close(s, /* unmount= */ true);
	return r;
}

void storage_close(struct storage *s, bool unmount)
{
	if (s->fd >= 0)
		(void)close(s->fd);
	/* The loop device goes with the mount. MNT_DETACH: a stranger's working directory in there
	 * must not keep us. */
	if (unmount && s->is_mounted)
		(void)umount2(s->path, MNT_DETACH | UMOUNT_NOFOLLOW);
	free(s->path);
	*s = (struct storage){.fd = -1};
}

static int fill_layer(int fd)
{
	static const char *const dirs[] = {"root", "root.work", "usr", "usr.work"};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdirat(fd, dirs[i], 0755) < 0)
			return -errno;
	return 0;
}

int storage_make(const struct storage *s, const char *id, uint64_t disk_bytes, int *ret_fd,
                 struct err *err)
{
	auto_fd int fd = -1;
	int r;

	if (s->is_btrfs)
		r = btrfs_subvol_make(s->fd, id);
	else
		r = mkdirat(s->fd, id, 0755) < 0 ? -errno : 0;
	if (r < 0)
		return err_set(err, ERR_CAPACITY, -r, "cannot make the sandbox's layer");
	fd = openat(s->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the sandbox's layer");
	r = fill_layer(fd);
	if (r == 0 && s->is_btrfs)
		r = btrfs_limit(fd, disk_bytes);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot set up the sandbox's layer");
	*ret_fd = take_fd(&fd);
	return 0;
}

int storage_limit(const struct storage *s, const char *id, uint64_t disk_bytes, struct err *err)
{
	auto_fd int fd = openat(s->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the sandbox's layer");
	if (!s->is_btrfs)
		return 0;
	r = btrfs_limit(fd, disk_bytes);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot limit the sandbox's layer") : 0;
}

int storage_snapshot(const struct storage *s, const char *id, const char *name, struct err *err)
{
	auto_fd int fd = openat(s->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : btrfs_snapshot(s->fd, fd, name);

	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_DISK_FULL : ERR_INTERNAL, -r,
	                       "cannot take a snapshot of the sandbox's layer")
	             : 0;
}

bool storage_has(const struct storage *s, const char *id)
{
	return faccessat(s->fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

uint64_t storage_usage(const struct storage *s, const char *id)
{
	auto_fd int fd = openat(s->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t bytes = 0;

	if (fd < 0 || !s->is_btrfs || btrfs_usage(fd, &bytes) < 0)
		return 0;
	return bytes;
}

int storage_remove(const struct storage *s, const char *id, int *ret_pidfd)
{
	int r;

	if (!storage_has(s, id))
		return 0;
	if (s->is_btrfs && btrfs_subvol_delete(s->fd, id) == 0)
		return 0;
	r = tree_remove_start(s->fd, id, ret_pidfd);
	return r < 0 ? r : 1;
}
