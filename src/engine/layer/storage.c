// SPDX-License-Identifier: Apache-2.0
#include "engine/layer/storage.h"

#include "base/log.h"
#include "engine/layer/backing.h"
#include "engine/layer/room.h"
#include "engine/linux/btrfs.h"
#include "engine/linux/btrfs_removal.h"
#include "engine/linux/dir_tree.h"
#include "engine/linux/loopdev.h"
#include "engine/linux/syscalls.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#define METADATA        (UINT64_C(64) << 20) /* of what storage_grow() makes room for */
#define UNMOUNT_MOST_US 30000000U
#define UNMOUNT_LOOK_US 20000U

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

/* Makes the file as large as the layers want ahead of their use, or as the disk allows. */
static int make_image(int data_fd, const char *data_dir, const char *image, uint64_t reserve,
                      uint64_t ahead, struct err *err)
{
	struct statvfs disk;
	uint64_t size, left, kept;

	if (fstatvfs(data_fd, &disk) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot measure '%s'", data_dir);
	size = (uint64_t)disk.f_blocks * disk.f_frsize;
	left = (uint64_t)disk.f_bavail * disk.f_frsize;
	kept = room_reserve(reserve, size);
	kept += kept / 4;
	if (left < kept + BACKING_SIZE_MIN) {
		(void)err_set(err, ERR_HOST_DISK_FULL, 0,
		              "'%s' has %" PRIu64 " MiB free, a first start needs %" PRIu64,
		              data_dir, left >> 20, (kept + BACKING_SIZE_MIN) >> 20);
		return err_hint(err, "make room there, or name a data directory on another disk");
	}
	return backing_make(
		image, MAX(MIN(room_headroom(ahead, size), left - kept), BACKING_SIZE_MIN), err);
}

static int mount_device(const char *device, const char *path)
{
	/* Without discards: see backing.h. The second is for a damaged tree root. */
	static const char *const options[] = {"nodiscard", "nodiscard,rescue=usebackuproot"};
	int r = -EINVAL;

	for (size_t i = 0; r < 0 && i < ARRAY_SIZE(options); i++) {
		r = mount(device, path, "btrfs", MS_NOATIME | MS_NOSUID | MS_NODEV, options[i]) < 0
		            ? -errno
		            : 0;
		if (r < 0 || i > 0)
			log_warn("storage.mount", "options=%s errno=%d", options[i], -r);
	}
	return r;
}

static int mount_image(int image_fd, const char *image, const char *path, struct err *err)
{
	auto_fd int loop_fd = -1;
	char device[LOOPDEV_SIZE];
	int r;

	backing_stretch(image_fd);
	r = loopdev_attach(image, /* is_read_only= */ false, device, &loop_fd, err);
	if (r < 0)
		return r;
	r = mount_device(device, path);
	if (r == 0)
		return 0;
	(void)err_set(err, r == -ENODEV ? ERR_UNSUPPORTED : ERR_INTERNAL, -r, "cannot mount '%s'",
	              image);
	if (r == -ENODEV)
		return err_hint(err, "load the kernel's module: modprobe btrfs");
	return err_hint(err,
	                "the kernel's log (dmesg) tells why; btrfs check --readonly %s says "
	                "what is left of it",
	                image);
}

/* Every process that makes a mount namespace has copies of all mounts, until it leaves the old
 * root. A copy keeps the filesystem and its loop device. The kernel drops all copies of what is
 * mounted on a directory when that is removed. MNT_DETACH, because another process may have its
 * working directory in there. */
static void unmount_image(const char *path)
{
	(void)umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
	(void)rmdir(path);
}

/* The last process that holds it may need a moment to end. */
static int unmount_broken(const char *image, const char *path, struct err *err)
{
	log_warn("storage.broken", "path=%s", path);
	if (loopdev_is_attached(image)) {
		unmount_image(path);
		(void)mkdir(path, 0700);
	} else {
		(void)umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
	}
	for (unsigned waited = 0; loopdev_is_attached(image); waited += UNMOUNT_LOOK_US) {
		if (waited >= UNMOUNT_MOST_US) {
			(void)err_set(err, ERR_UNAVAILABLE, EBUSY,
			              "'%s' gave up after an error, and is still in use", image);
			return err_hint(err,
			                "end the processes that use files below '%s', then "
			                "start again",
			                path);
		}
		(void)usleep(UNMOUNT_LOOK_US);
	}
	return 0;
}

static bool is_read_only(const char *path)
{
	struct statvfs fs;

	return statvfs(path, &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0;
}

static bool is_mounted(const char *path, const char *data_dir)
{
	return is_mount_point(path, data_dir) && is_on_btrfs(path);
}

bool storage_is_broken(const char *data_dir)
{
	auto_free char *path = xasprintf("%s/layers", data_dir);

	return is_mounted(path, data_dir) && is_read_only(path);
}

static int open_image(struct storage *s, const char *image, struct err *err)
{
	s->image_fd = open(image, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return s->image_fd < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", image) : 0;
}

/* Mounted by an earlier broker, or by an operator with another device for layers. */
static int take_mounted(struct storage *s, const char *image, struct err *err)
{
	s->is_mounted = true;
	if (!loopdev_is_attached(image))
		return 0;
	/* An older release had discards on. */
	if (mount(NULL, s->path, NULL, MS_REMOUNT | MS_NOATIME | MS_NOSUID | MS_NODEV,
	          "nodiscard") < 0)
		log_warn("storage.remount", "errno=%d", errno);
	return open_image(s, image, err);
}

static int open_btrfs(struct storage *s, const char *data_dir, uint64_t reserve, uint64_t ahead,
                      struct err *err)
{
	auto_free char *image = xasprintf("%s/layers.btrfs", data_dir);
	bool is_there = is_mounted(s->path, data_dir);
	int r = 0;

	if (is_there && is_read_only(s->path)) {
		r = unmount_broken(image, s->path, err);
		if (r < 0)
			return r;
		is_there = is_mounted(s->path, data_dir);
	}
	if (is_there)
		return take_mounted(s, image, err);
	if (is_on_btrfs(data_dir))
		return 0;
	if (access(image, F_OK) < 0)
		r = make_image(s->data_fd, data_dir, image, reserve, ahead, err);
	if (r == 0)
		r = open_image(s, image, err);
	if (r == 0)
		r = mount_image(s->image_fd, image, s->path, err);
	s->is_mounted = r == 0;
	return r;
}

static int switch_quotas_on(struct storage *s, struct err *err)
{
	int r = btrfs_quota_on(s->fd);

	if (r < 0)
		return err_set(err, ERR_UNSUPPORTED, -r, "cannot switch btrfs quotas on");
	btrfs_prune_quota(s->fd);
	s->counts_once = btrfs_counts_once(s->fd);
	return 0;
}

static int open_all(struct storage *s, const char *data_dir, uint64_t reserve, uint64_t ahead,
                    struct err *err)
{
	int r;

	s->data_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->data_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", data_dir);
	if (mkdir(s->path, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", s->path);
	r = s->is_btrfs ? open_btrfs(s, data_dir, reserve, ahead, err) : 0;
	if (r < 0)
		return r;
	s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->fd < 0 || fchmod(s->fd, 0700) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", s->path);
	if (!s->is_btrfs)
		return 0;
	btrfs_removal_open(s->fd);
	return switch_quotas_on(s, err);
}

int storage_open(struct storage *s, const char *data_dir, bool is_plain, uint64_t reserve,
                 uint64_t ahead, struct err *err)
{
	int r;

	*s = (struct storage){.fd = -1,
	                      .data_fd = -1,
	                      .image_fd = -1,
	                      .is_btrfs = !is_plain,
	                      .path = xasprintf("%s/layers", data_dir)};
	r = open_all(s, data_dir, reserve, ahead, err);
	if (r == 0)
		return 0;
	if (err && !err->hint[0])
		(void)err_hint(err, "install btrfs-progs and allow loop devices, or start with "
		                    "--plain-storage and do without disk limits");
	storage_close(s, /* unmount= */ true);
	return r;
}

int storage_grow(const struct storage *s, uint64_t bytes, struct err *err)
{
	int r = s->image_fd < 0 ? 0 : backing_grow(s->image_fd, s->fd, bytes + METADATA);

	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
	                       "cannot make room for %" PRIu64 " MiB", bytes >> 20)
	             : 0;
}

void storage_close(struct storage *s, bool unmount)
{
	const bool is_image = s->image_fd >= 0;

	if (s->is_btrfs)
		btrfs_removal_close();
	if (s->fd >= 0)
		(void)close(s->fd);
	if (s->data_fd >= 0)
		(void)close(s->data_fd);
	if (s->image_fd >= 0)
		(void)close(s->image_fd);
	/* The directory of an operator's own mount stays, for the next one. */
	if (unmount && s->is_mounted && is_image)
		unmount_image(s->path);
	else if (unmount && s->is_mounted)
		(void)umount2(s->path, MNT_DETACH | UMOUNT_NOFOLLOW);
	free(s->path);
	*s = (struct storage){.fd = -1, .data_fd = -1, .image_fd = -1};
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
		return err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_CAPACITY, -r,
		               "cannot make the sandbox's layer");
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

	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
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

	if (fd < 0 || !s->is_btrfs || btrfs_usage_now(fd, &bytes) < 0)
		return 0;
	return bytes;
}

/* In a child: an exit status. */
static int run_remove(const struct storage *s, const char *name)
{
	if (s->is_btrfs && btrfs_subvol_delete(s->fd, name) == 0)
		return 0;
	return dir_tree_remove(s->fd, name) == 0 ? 0 : 1;
}

/* Deleting a subvolume is one call, but in it the kernel drops all cached files of the subvolume:
 * 176 ms of CPU time for 60,000. It also waits for the disk. */
int storage_remove(const struct storage *s, const char *name, bool is_again, int *ret_pidfd)
{
	struct clone_args args = {.flags = CLONE_PIDFD,
	                          .exit_signal = SIGCHLD,
	                          .pidfd = (uint64_t)(uintptr_t)ret_pidfd};
	pid_t pid;

	if (!storage_has(s, name))
		return 0;
	if (s->is_btrfs && !is_again && btrfs_removal_start(s->fd, name, ret_pidfd) == 1)
		return 1;
	pid = sys_clone3(&args);
	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(run_remove(s, name));
	return 1;
}
