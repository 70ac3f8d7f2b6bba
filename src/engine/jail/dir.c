// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/dir.h"

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

int dir_open(struct dir_reader *d, int dir_fd, const char *path)
{
	d->at = d->len = 0;
	d->fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return d->fd < 0 ? -errno : 0;
}

const char *dir_next(struct dir_reader *d)
{
	for (;;) {
		const struct entry *e;

		if (d->at == d->len) {
			long n = syscall(SYS_getdents64, d->fd, d->entries, sizeof(d->entries));

			if (n <= 0)
				return NULL;
			d->len = (size_t)n;
			d->at = 0;
		}
		e = (const struct entry *)(const void *)(d->entries + d->at);
		d->at += e->len;
		if (strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0)
			return e->name;
	}
}

void dir_close(struct dir_reader *d)
{
	if (d->fd >= 0)
		(void)close(take_fd(&d->fd));
}
