// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A growing run of bytes with a cap, which is given when it is made. Appending past the cap gives
 * -E2BIG and leaves the buf as it was. Bytes are consumed from the front without moving the rest
 * each time. data is followed by a NUL that is not counted in len.
 */
#include "base/auto.h"

struct buf {
	char *data; /* first unread byte; NULL while nothing was ever appended */
	size_t len;
	size_t cap; /* most that len may be */
	char *mem;
	size_t mem_size;
};

#define BUF_INIT(cap_)                                                                             \
	{                                                                                          \
		.cap = (cap_)                                                                      \
	}

void buf_init(struct buf *b, size_t cap);
void buf_done(struct buf *b); /* may be used again afterwards */
must_check int buf_append(struct buf *b, const void *data, size_t len);
must_check int buf_append_str(struct buf *b, const char *s);
/* Appends a whole file, which may be long: /proc/self/mountinfo, dpkg's status. */
must_check int buf_append_file(struct buf *b, const char *path);
must_check int buf_printf(struct buf *b, const char *fmt, ...) printf_like(2, 3);
/* Room for up to len more bytes, to be filled by the caller and then counted by buf_commit(). */
must_check int buf_reserve(struct buf *b, size_t len, char **ret_room);
void buf_commit(struct buf *b, size_t len);
void buf_consume(struct buf *b, size_t len); /* drops len bytes from the front */
void buf_truncate(struct buf *b, size_t len);
const char *buf_str(const struct buf *b); /* never NULL */
size_t buf_room(const struct buf *b);     /* cap - len */
