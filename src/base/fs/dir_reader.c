// SPDX-License-Identifier: Apache-2.0
#include "base/fs/dir_reader.h"

#include "base/log.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

struct entry { /* as getdents64() gives it */
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

static void start(struct dir_reader *d, int fd, bool is_borrowed)
{
	d->fd = fd;
	d->is_borrowed = is_borrowed;
	d->error = 0;
	d->at = d->len = 0;
}

int dir_open(struct dir_reader *d, int dir_fd, const char *path)
{
	start(d, openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), false);
	d->error = d->fd < 0 ? -errno : 0;
	return d->error;
}

int dir_begin(struct dir_reader *d, int fd)
{
	start(d, fd, true);
	d->error = lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
	return d->error;
}

const char *dir_next(struct dir_reader *d)
{
	while (d->error == 0) {
		const struct entry *e;

		if (d->at == d->len) {
			long n = syscall(SYS_getdents64, d->fd, d->bytes, sizeof(d->bytes));

			if (n <= 0) {
				/* A directory that was removed meanwhile is empty. */
				d->error = n < 0 && errno != ENOENT ? -errno : 0;
				return NULL;
			}
			d->at = 0;
			d->len = (size_t)n;
		}
		e = (const struct entry *)(const void *)(d->bytes + d->at);
		d->at += e->len;
		if (strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0)
			return e->name;
	}
	return NULL;
}

void dir_tell(const struct dir_reader *d, const char *what)
{
	if (d->error < 0 && d->error != -ENOENT)
		log_error("dir.unreadable", "what='%s' errno=%d", what, -d->error);
}

void dir_close(struct dir_reader *d)
{
	if (d->fd >= 0 && !d->is_borrowed)
		(void)close(take_fd(&d->fd));
}
