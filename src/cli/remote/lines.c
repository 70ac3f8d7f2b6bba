// SPDX-License-Identifier: Apache-2.0
#include "cli/remote/lines.h"

#include <string.h>

#define READ_SIZE (64 * 1024)

static int take_lines(struct buf *in, lines_fn fn, void *arg, struct err *err)
{
	char *end;
	int r = 0;

	while (r == 0 && in->len > 0 && (end = memchr(in->data, '\n', in->len))) {
		size_t len = (size_t)(end - in->data);

		if (len > 0)
			r = fn(arg, in->data, len, err);
		buf_consume(in, len + 1);
	}
	return r;
}

static int read_all(ssize_t (*read_some)(void *source, char *room, size_t size), void *source,
                    size_t max, lines_fn fn, void *arg, struct err *err)
{
	struct buf in = BUF_INIT(max + READ_SIZE);
	int r = 0;

	while (r == 0) {
		char *room;
		ssize_t n;

		if (buf_reserve(&in, READ_SIZE, &room) < 0) {
			r = err_set(err, ERR_INTERNAL, EMSGSIZE, "an event is too long");
			break;
		}
		n = read_some(source, room, READ_SIZE);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			break;
		buf_commit(&in, (size_t)n);
		r = take_lines(&in, fn, arg, err);
	}
	buf_done(&in);
	return r;
}

static ssize_t read_remote(void *source, char *room, size_t size)
{
	return http_client_read(remote_client(source), room, size);
}

int lines_read(struct remote *remote, size_t max, lines_fn fn, void *arg, struct err *err)
{
	return read_all(read_remote, remote, max, fn, arg, err);
}

static ssize_t read_fd(void *source, char *room, size_t size)
{
	ssize_t n = read(*(int *)source, room, size);

	return n < 0 ? -errno : n;
}

int lines_read_fd(int fd, size_t max, lines_fn fn, void *arg, struct err *err)
{
	return read_all(read_fd, &fd, max, fn, arg, err);
}
