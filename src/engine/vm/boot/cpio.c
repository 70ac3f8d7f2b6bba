// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/boot/cpio.h"

#include "base/fd.h"

#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define HEAD_SIZE  110 /* "070701" and 13 numbers of 8 hex digits */
#define ALIGNMENT  4
#define LAST_NAME  "TRAILER!!!"
#define SIZE_LIMIT UINT32_MAX

static int put(struct cpio *c, const void *data, size_t len)
{
	int r = fd_write_all(c->fd, data, len);

	if (r == 0)
		c->written += len;
	return r;
}

static int pad(struct cpio *c)
{
	static const char zeros[ALIGNMENT];

	return put(c, zeros, (ALIGNMENT - c->written % ALIGNMENT) % ALIGNMENT);
}

static int put_head(struct cpio *c, const char *path, mode_t mode, uint64_t len)
{
	const unsigned n_links = S_ISDIR(mode) ? 2 : 1;
	char head[HEAD_SIZE + 1];
	int r;

	if (len > SIZE_LIMIT)
		return -EFBIG;
	/* inode, mode, uid, gid, links, date, size, device (2), number of a device (2), length of
	 * the name with its NUL, checksum */
	(void)snprintf(head, sizeof(head),
	               "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", ++c->entries,
	               mode, 0, 0, n_links, 0, (unsigned)len, 0, 0, 0, 0,
	               (unsigned)strlen(path) + 1, 0);
	r = put(c, head, HEAD_SIZE);
	if (r == 0)
		r = put(c, path, strlen(path) + 1);
	return r == 0 ? pad(c) : r;
}

int cpio_dir(struct cpio *c, const char *path, mode_t mode)
{
	return put_head(c, path, S_IFDIR | mode, 0);
}

int cpio_file(struct cpio *c, const char *path, mode_t mode, int from_fd, uint64_t len)
{
	int r = put_head(c, path, S_IFREG | mode, len);
	off_t at = 0;

	while (r == 0 && (uint64_t)at < len) {
		ssize_t n = sendfile(c->fd, from_fd, &at, (size_t)(len - (uint64_t)at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			r = n < 0 ? -errno : -EPIPE;
	}
	if (r < 0)
		return r;
	c->written += len;
	return pad(c);
}

int cpio_end(struct cpio *c)
{
	return put_head(c, LAST_NAME, 0, 0);
}
