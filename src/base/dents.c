// SPDX-License-Identifier: Apache-2.0
#include "base/dents.h"

#include <string.h>
#include <sys/syscall.h>

struct dent { /* as getdents64() gives it */
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

int dents_begin(struct dents *d, int fd)
{
	d->fd = fd;
	d->error = 0;
	d->at = d->len = 0;
	return lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

const char *dents_next(struct dents *d)
{
	for (;;) {
		const struct dent *e;

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
		e = (const struct dent *)(const void *)(d->bytes + d->at);
		d->at += e->len;
		if (strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0)
			return e->name;
	}
}
