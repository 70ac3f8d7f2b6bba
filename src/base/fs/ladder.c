// SPDX-License-Identifier: Apache-2.0
#include "base/fs/ladder.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/stat.h>

#define OPEN_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

static int push(struct ladder *l, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	if (l->n == l->size) {
		l->size = l->size ? l->size * 2 : 16;
		l->rungs = xrealloc(l->rungs, l->size * sizeof(*l->rungs));
	}
	l->rungs[l->n++] = (struct rung){fd, st.st_dev, st.st_ino};
	return 0;
}

int ladder_init(struct ladder *l, int fd)
{
	*l = (struct ladder){0};
	return push(l, fd);
}

void ladder_done(struct ladder *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->rungs[i].fd >= 0)
			(void)close(l->rungs[i].fd);
	free(l->rungs);
	*l = (struct ladder){0};
}

int ladder_fd(const struct ladder *l)
{
	assert(l->n > 0);
	return l->rungs[l->n - 1].fd;
}

int ladder_down(struct ladder *l, const char *name)
{
	struct rung *from = &l->rungs[l->n - 1];
	int fd = openat(from->fd, name, OPEN_FLAGS);

	if (fd < 0)
		return -errno;
	if (l->n > LADDER_FDS) {
		(void)close(from->fd);
		from->fd = -1;
	}
	return push(l, fd);
}

int ladder_up(struct ladder *l)
{
	struct rung *here = &l->rungs[l->n - 1], *parent = here - 1;
	struct stat st;

	assert(l->n > 1);
	if (parent->fd < 0) {
		parent->fd = openat(here->fd, "..", OPEN_FLAGS);
		if (parent->fd < 0)
			return -errno;
		if (fstat(parent->fd, &st) < 0 || st.st_dev != parent->dev ||
		    st.st_ino != parent->ino)
			return -ESTALE;
	}
	(void)close(here->fd);
	l->n--;
	return 0;
}
