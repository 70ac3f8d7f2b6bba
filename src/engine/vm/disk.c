// SPDX-License-Identifier: Apache-2.0
/*
 * No copy-on-write for the file's blocks (FS_NOCOW_FL): else overwriting a part of an extent would
 * keep the whole old one, and a guest could need twice its disk. A clone must have the same flag as
 * its source, so the blank is marked too.
 */
#include "engine/vm/disk.h"

#include "base/process/spawn.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define DISK       "disk"
#define INODE_SIZE "256"

static int make_file(int dir_fd, const char *name, bool is_btrfs, int *ret_fd, struct err *err)
{
	int flags = FS_NOCOW_FL;
	auto_fd int fd =
		openat(dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a disk");
	if (is_btrfs)
		(void)ioctl(fd, FS_IOC_SETFLAGS, &flags); /* refused if it is set already */
	*ret_fd = take_fd(&fd);
	return 0;
}

static int format(const struct storage *s, const char *name, int fd, uint64_t bytes,
                  uint64_t inodes, struct err *err)
{
	auto_free char *path = xasprintf("%s/%s", s->path, name);
	char count[32];
	/* Lazy: tables are written when they are used. The journal is small: it is for crashes, not
	 * for speed. */
	const char *const argv[] = {"mkfs.ext4",
	                            "-q",
	                            "-F",
	                            "-L",
	                            "scratch",
	                            "-m",
	                            "0",
	                            "-b",
	                            "4096",
	                            "-I",
	                            INODE_SIZE,
	                            "-N",
	                            count,
	                            "-J",
	                            "size=4",
	                            "-E",
	                            "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
	                            path,
	                            NULL};

	(void)snprintf(count, sizeof(count), "%" PRIu64, inodes);
	if (ftruncate(fd, (off_t)bytes) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot set a disk's size");
	return spawn_run(argv, err);
}

static int open_blank(const struct storage *s, uint64_t bytes, uint64_t inodes, int *ret_fd,
                      struct err *err)
{
	char name[64], made[72];
	auto_fd int fd = -1;
	int r;

	(void)snprintf(name, sizeof(name), "blank-%" PRIu64 "-%" PRIu64, bytes, inodes);
	(void)snprintf(made, sizeof(made), "%s.new", name);
	*ret_fd = openat(s->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret_fd >= 0)
		return 0;
	r = make_file(s->fd, made, s->is_btrfs, &fd, err);
	if (r == 0)
		r = format(s, made, fd, bytes, inodes, err);
	if (r == 0 && renameat(s->fd, made, s->fd, name) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot name a disk");
	if (r < 0) {
		(void)unlinkat(s->fd, made, 0);
		return r;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

/* If the filesystem cannot clone: copies the few blocks that are not empty. */
static int copy_sparse(int from, int to, uint64_t bytes)
{
	off_t at = 0;

	if (ftruncate(to, (off_t)bytes) < 0)
		return -errno;
	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(from, at, SEEK_HOLE), out = at;

		while (end > at)
			if (copy_file_range(from, &at, to, &out, (size_t)(end - at), 0) <= 0)
				return -EIO;
	}
	return errno == ENXIO ? 0 : -errno;
}

static int copy_disk(int from_fd, int to_fd, uint64_t bytes)
{
	return ioctl(to_fd, FICLONE, from_fd) < 0 ? copy_sparse(from_fd, to_fd, bytes) : 0;
}

int disk_make(const struct storage *s, int layer_fd, uint64_t bytes, uint64_t inodes,
              struct err *err)
{
	auto_fd int blank = -1, fd = -1;
	int r = open_blank(s, bytes & ~UINT64_C(4095), MIN(inodes, bytes / 4096), &blank, err);

	if (r == 0)
		r = make_file(layer_fd, DISK, s->is_btrfs, &fd, err);
	if (r < 0)
		return r;
	r = copy_disk(blank, fd, bytes);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot copy an empty disk") : 0;
}

static int open_disk(int layer_fd, int flags, int *ret_fd, struct err *err)
{
	int fd = openat(layer_fd, DISK, flags | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return err_set(err, ERR_CONFLICT, errno,
		               "the sandbox's files are a jail's, not a vm's");
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the sandbox's disk");
	*ret_fd = fd;
	return 0;
}

int disk_open(int layer_fd, int *ret_fd, struct err *err)
{
	return open_disk(layer_fd, O_RDWR, ret_fd, err);
}

int disk_open_saved(int files_fd, int *ret_fd, struct err *err)
{
	return open_disk(files_fd, O_RDONLY, ret_fd, err);
}

int disk_clone(const struct storage *s, int from_fd, int layer_fd, const char *name)
{
	auto_fd int fd = -1;
	struct stat st;
	int r = fstat(from_fd, &st) < 0 ? -errno
	                                : make_file(layer_fd, name, s->is_btrfs, &fd, NULL);

	return r < 0 ? r : copy_disk(from_fd, fd, (uint64_t)st.st_size);
}

int disk_open_clone(int layer_fd, const char *name, int *ret_fd, struct err *err)
{
	*ret_fd = openat(layer_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot open a copied disk") : 0;
}
