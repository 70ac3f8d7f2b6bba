// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_CHUNK 16384

void buf_init(struct buf *b, size_t cap)
{
	*b = (struct buf)BUF_INIT(cap);
}

void buf_done(struct buf *b)
{
	free(b->mem);
	*b = (struct buf)BUF_INIT(b->cap);
}

size_t buf_room(const struct buf *b)
{
	return b->cap - b->len;
}

int buf_reserve(struct buf *b, size_t len, char **ret_room)
{
	size_t at = b->data ? (size_t)(b->data - b->mem) : 0;
	size_t need;

	if (len > buf_room(b))
		return -E2BIG;
	need = b->len + len + 1;
	if (at + need > b->mem_size) {
		if (at > 0 && need <= b->mem_size && at >= b->mem_size / 2) {
			memmove(b->mem, b->data, b->len);
		} else {
			size_t size = MAX(b->mem_size * 2, need < 128 ? (size_t)128 : need);
			char *mem = malloc(size);

			if (!mem)
				return -ENOMEM;
			if (b->len > 0)
				memcpy(mem, b->data, b->len);
			free(b->mem);
			b->mem = mem;
			b->mem_size = size;
		}
		at = 0;
	}
	b->data = b->mem + at;
	b->data[b->len] = '\0';
	*ret_room = b->data + b->len;
	return 0;
}

void buf_commit(struct buf *b, size_t len)
{
	assert(b->data && (size_t)(b->data - b->mem) + b->len + len < b->mem_size);
	b->len += len;
	b->data[b->len] = '\0';
}

int buf_append(struct buf *b, const void *data, size_t len)
{
	char *room;
	int r = buf_reserve(b, len, &room);

	if (r < 0)
		return r;
	if (len > 0)
		memcpy(room, data, len);
	buf_commit(b, len);
	return 0;
}

int buf_append_str(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

int buf_append_file(struct buf *b, const char *path)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (;;) {
		char *room;
		ssize_t n;
		int r = buf_reserve(b, FILE_CHUNK, &room);

		if (r < 0)
			return r;
		n = read(fd, room, FILE_CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		buf_commit(b, (size_t)n);
	}
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	char *room;
	int len, r;

	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (len < 0)
		return -EINVAL;
	r = buf_reserve(b, (size_t)len, &room);
	if (r < 0)
		return r;
	va_start(ap, fmt);
	(void)vsnprintf(room, (size_t)len + 1, fmt, ap);
	va_end(ap);
	buf_commit(b, (size_t)len);
	return 0;
}

void buf_consume(struct buf *b, size_t len)
{
	assert(len <= b->len);
	if (len == 0)
		return;
	b->data += len;
	b->len -= len;
	if (b->len == 0)
		b->data = b->mem;
}

void buf_truncate(struct buf *b, size_t len)
{
	assert(len <= b->len);
	b->len = len;
	if (b->data)
		b->data[len] = '\0';
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}
