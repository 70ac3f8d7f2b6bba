// SPDX-License-Identifier: Apache-2.0
/*
 * A TCP connection to a port of this machine, for a host that cannot reach it by itself: a vm's.
 * What comes from stdin goes there, and back. Each direction ends by itself, as in TCP. The end of
 * stdin is told to the server. The end of what the server sends is told to the host by a record
 * with the number of bytes, because records and data come by different pipes.
 *
 * A process for each: it is the user's, in the sandbox's limits, and waits for whoever is slow.
 */
#include "agent/fileops/files.h"
#include "base/fd.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define CHUNK ((size_t)64 * 1024)

struct dial {
	int fd;
	bool is_input_over, is_output_over;
	uint64_t received;
	size_t at, len; /* of input that the server has not taken yet */
	char input[CHUNK], output[CHUNK];
};

static int say(enum record_kind kind, enum watch_event event, uint64_t count, struct err *err)
{
	const struct record r = {.kind = kind, .event = event, .count = count, .bytes = count};

	return files_send_record(&r, err);
}

static int refuse(const struct start *s, int errnum, struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, errnum, "port %u of %s does not answer",
	               (unsigned)s->offset, s->path);
}

/* Loopback only: whoever may dial reaches the sandbox, and nothing through it. */
static int open_connection(const struct start *s, int *ret_fd, struct err *err)
{
	const bool is_six = strcmp(s->path, "::1") == 0;
	const struct sockaddr_in v4 = {.sin_family = AF_INET,
	                               .sin_port = htons((uint16_t)s->offset),
	                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
	                                .sin6_port = htons((uint16_t)s->offset),
	                                .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	auto_fd int fd = -1;

	if ((!is_six && strcmp(s->path, "127.0.0.1") != 0) || s->offset == 0 ||
	    s->offset > UINT16_MAX)
		return err_set(err, ERR_INVALID_FIELD, EINVAL, "not a port of this machine");
	fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, is_six ? (const struct sockaddr *)&v6 : (const void *)&v4,
	                      is_six ? sizeof(v6) : sizeof(v4)) < 0)
		return refuse(s, errno, err);
	*ret_fd = take_fd(&fd);
	return 0;
}

static void end_input(struct dial *d)
{
	d->is_input_over = true;
	d->len = 0;
	(void)shutdown(d->fd, SHUT_WR);
}

/* A server that takes no more is not told of what else there is; what it has said still counts. */
static void send_input(struct dial *d)
{
	ssize_t n = send(d->fd, d->input + d->at, d->len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		end_input(d);
	if (n > 0) {
		d->at += (size_t)n;
		d->len -= (size_t)n;
	}
}

static void take_input(struct dial *d)
{
	ssize_t n = read(STDIN_FILENO, d->input, sizeof(d->input));

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		end_input(d);
		return;
	}
	d->at = 0;
	d->len = (size_t)n;
	send_input(d);
}

static int pass_output(struct dial *d, struct err *err)
{
	ssize_t n = recv(d->fd, d->output, sizeof(d->output), MSG_DONTWAIT);

	if (n > 0) {
		d->received += (uint64_t)n;
		return result_send(d->output, (size_t)n, err);
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	d->is_output_over = true;
	if (n < 0) /* cut, both ways */
		d->is_input_over = true;
	return say(RECORD_COUNT, 0, d->received, err);
}

static int relay(struct dial *d, struct err *err)
{
	int r = 0;

	while (r >= 0 && !(d->is_input_over && d->is_output_over)) {
		/* Never waits for a server that waits for us to read. */
		struct pollfd fds[] = {
			{.fd = d->is_input_over || d->len > 0 ? -1 : STDIN_FILENO,
		         .events = POLLIN},
			{.fd = d->is_output_over ? -1 : d->fd, .events = POLLIN},
			{.fd = d->len > 0 ? d->fd : -1, .events = POLLOUT},
		};

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			return err_set(err, ERR_INTERNAL, errno, "poll");
		if (fds[0].revents)
			take_input(d);
		if (fds[2].revents)
			send_input(d);
		if (fds[1].revents)
			r = pass_output(d, err);
	}
	return r;
}

int op_dial(struct file_call *call, struct err *err)
{
	auto_free struct dial *d = xnew0(struct dial);
	int r = open_connection(call->start, &d->fd, err);

	if (r < 0)
		return r;
	r = say(RECORD_EVENT, WATCH_READY, 0, err);
	if (r >= 0)
		r = relay(d, err);
	(void)close(d->fd);
	return r;
}
