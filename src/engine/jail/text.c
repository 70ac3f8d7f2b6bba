// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/text.h"

#include <fcntl.h>

#define CHUNK 16384

int text_read(const char *path, struct buf *ret)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (;;) {
		char *room;
		ssize_t n;
		int r = buf_reserve(ret, CHUNK, &room);

		if (r < 0)
			return r;
		n = read(fd, room, CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		buf_commit(ret, (size_t)n);
	}
}
