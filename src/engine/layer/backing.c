// SPDX-License-Identifier: Apache-2.0
#include "engine/layer/backing.h"

#include "base/process/spawn.h"
#include "engine/linux/btrfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define ALIGN (UINT64_C(1) << 20) /* btrfs itself asks for whole blocks */

static uint64_t align_down(uint64_t n)
{
	return n & ~(ALIGN - 1);
}

/* Returns 1 if this disk cannot allocate. */
static int allocate(int fd, uint64_t from, uint64_t bytes)
{
	int r;

	do
		r = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)bytes);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return 0;
	return errno == EOPNOTSUPP || errno == ENOSYS ? 1 : -errno;
}

/* If punching the hole fails, the blocks stay allocated, which does no harm. */
static void give_back(int fd, uint64_t from)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && (uint64_t)st.st_size > from)
		(void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
		                st.st_size - (off_t)from);
}

/* The file gets its name once it holds a complete filesystem. */
int backing_make(const char *path, uint64_t bytes, struct err *err)
{
	auto_free char *temp = xasprintf("%s.new", path);
	auto_fd int fd = open(temp, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	const char *const mkfs[] = {"mkfs.btrfs", "-q", "-K", "-m", "single", temp, NULL};
	int r;

	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", temp);
	bytes = align_down(bytes);
	r = ftruncate(fd, (off_t)bytes) < 0 ? -errno : allocate(fd, 0, bytes);
	if (r < 0)
		r = err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
		            "cannot size '%s'", temp);
	else
		r = spawn_run(mkfs, err);
	if (r == 0 && (fsync(fd) < 0 || rename(temp, path) < 0))
		r = err_set(err, ERR_INTERNAL, errno, "cannot finish '%s'", path);
	if (r < 0)
		(void)unlink(temp);
	return r;
}

void backing_stretch(int file_fd)
{
	struct statvfs disk;
	struct stat st;
	uint64_t bytes;

	if (fstatvfs(file_fd, &disk) < 0 || fstat(file_fd, &st) < 0)
		return;
	bytes = align_down((uint64_t)disk.f_blocks * disk.f_frsize);
	if (bytes > (uint64_t)st.st_size)
		(void)!ftruncate(file_fd, (off_t)bytes); /* else it stays as large as it is */
}

uint64_t backing_missing(int file_fd, uint64_t fs_bytes)
{
	struct stat st;
	uint64_t has;

	if (fstat(file_fd, &st) < 0)
		return 0;
	has = (uint64_t)st.st_blocks * 512;
	return fs_bytes > has ? fs_bytes - has : 0;
}

int backing_grow(int file_fd, int fs_fd, uint64_t by)
{
	struct btrfs_device device;
	struct stat st;
	uint64_t bytes;
	int r = btrfs_device(fs_fd, &device);

	if (r < 0)
		return r;
	if (fstat(file_fd, &st) < 0)
		return -errno;
	bytes = align_down(MIN(device.bytes + by, (uint64_t)st.st_size));
	if (bytes <= device.bytes)
		return -ENOSPC;
	r = allocate(file_fd, device.bytes, bytes - device.bytes);
	if (r >= 0)
		r = btrfs_resize(fs_fd, bytes);
	if (r < 0)
		give_back(file_fd, device.bytes);
	return r;
}

int backing_fit(int file_fd, int fs_fd, uint64_t spare)
{
	struct btrfs_device device;
	uint64_t end;
	int r = btrfs_device(fs_fd, &device);

	if (r == 0)
		r = btrfs_last_chunk_end(fs_fd, &end);
	if (r < 0)
		return r;
	end = MAX(align_down(end + spare + ALIGN - 1), BACKING_SIZE_MIN);
	if (end < device.bytes) {
		r = btrfs_resize(fs_fd, end);
		if (r < 0)
			return r;
		device.bytes = end;
	}
	give_back(file_fd, device.bytes);
	return allocate(file_fd, 0, device.bytes);
}

int backing_hold(int file_fd, uint64_t bytes)
{
	/* The length is set too, since not every filesystem frees blocks behind the end. */
	int r = ftruncate(file_fd, (off_t)bytes) < 0 ? -errno : allocate(file_fd, 0, bytes);

	if (r < 0)
		(void)!ftruncate(file_fd, 0);
	return r;
}
