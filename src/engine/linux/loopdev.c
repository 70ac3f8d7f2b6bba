// SPDX-License-Identifier: Apache-2.0
#include "engine/linux/loopdev.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* Between finding a device and using it, others may take or release it. */
#define TRIES_MAX    500
#define TRY_EVERY_US 2000

static bool find_attached(const char *file, char name[LOOPDEV_SIZE])
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *device;

	if (dir_open(&dir, AT_FDCWD, "/sys/block") < 0)
		return false;
	while ((device = dir_next(&dir))) {
		char path[64], backing[PATH_MAX];

		if (strncmp(device, "loop", 4) != 0 || strlen(device) > 16)
			continue;
		(void)snprintf(path, sizeof(path), "%.16s/loop/backing_file", device);
		if (fd_read_file(dir.fd, path, backing, sizeof(backing)) < 0 ||
		    strcmp(backing, file) != 0)
			continue;
		(void)snprintf(name, LOOPDEV_SIZE, "/dev/%.16s", device);
		return true;
	}
	dir_tell(&dir, "loop devices");
	return false;
}

bool loopdev_is_attached(const char *file)
{
	char real[PATH_MAX], name[LOOPDEV_SIZE];

	return realpath(file, real) && find_attached(real, name);
}

/* The kernel may release the device until we have opened it, as happens to the last daemon's. */
static int open_attached(const char *name, const char *file, int mode, int *ret_fd)
{
	auto_fd int fd = open(name, mode | O_CLOEXEC);
	char now[LOOPDEV_SIZE];

	if (fd < 0)
		return -errno;
	if (!find_attached(file, now) || strcmp(now, name) != 0)
		return -EBUSY;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int configure(int control_fd, int file_fd, bool is_read_only, char name[LOOPDEV_SIZE],
                     int *ret_fd)
{
	struct loop_config config = {
		.fd = (uint32_t)file_fd,
		/* Direct I/O avoids a second page cache; the kernel does without if the file does
	         * not support it. */
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO |
	                         (is_read_only ? (uint32_t)LO_FLAGS_READ_ONLY : 0),
	};
	auto_fd int fd = -1;
	int n = ioctl(control_fd, LOOP_CTL_GET_FREE);

	if (n < 0)
		return -errno;
	(void)snprintf(name, LOOPDEV_SIZE, "/dev/loop%d", n);
	fd = open(name, (is_read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, LOOP_CONFIGURE, &config) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

int loopdev_attach(const char *file, bool is_read_only, char name[LOOPDEV_SIZE], int *ret_fd,
                   struct err *err)
{
	const int mode = is_read_only ? O_RDONLY : O_RDWR;
	auto_fd int file_fd = open(file, mode | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int control_fd = -1;
	char real[PATH_MAX];
	int r = -EBUSY;

	if (file_fd < 0 || !realpath(file, real))
		return err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", file);
	control_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control_fd < 0)
		return err_set(err, ERR_UNSUPPORTED, errno, "cannot open /dev/loop-control");
	for (int i = 0; r == -EBUSY && i < TRIES_MAX; i++) {
		if (i > 0)
			(void)usleep(TRY_EVERY_US);
		r = find_attached(real, name)
		            ? open_attached(name, real, mode, ret_fd)
		            : configure(control_fd, file_fd, is_read_only, name, ret_fd);
	}
	return r < 0 ? err_set(err, ERR_UNSUPPORTED, -r, "cannot attach a loop device") : 0;
}
