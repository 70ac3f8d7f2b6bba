// SPDX-License-Identifier: Apache-2.0
/*
 *	dialling --"ready"--> relaying --> (freed)
 *	    +------------------------------^
 *
 * Each side is read only while the other accepts bytes: `in` is one read of the socket, `out` at
 * most a window of the agent's output. The server's end is reported as a count of its bytes, since
 * it comes on another stream than the bytes do: the socket is ended after the last of them.
 *
 * The socket's owner may be gone before the server has received everything. So the input is ended,
 * further output is dropped, and the agent is told to hang up only if that takes too long.
 */
#include "sandbox/network/port_via_agent.h"

#include "base/fd.h"
#include "sandbox/fileops/file_call.h"
#include "sandbox/model/sandbox_private.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define IN_SIZE   ((size_t)64 * 1024)
#define OUT_MAX   ((size_t)2 * FRAME_WINDOW)
#define LINGER_US UINT64_C(10000000)

struct port_via_agent {
	struct loop *loop;
	struct file_call *call;
	port_via_agent_fn fn; /* NULL: it was told */
	void *arg;
	int fd; /* our end of the pair; -1 before there is one, and when its owner has gone */
	struct loop_io *io;
	struct loop_timer *linger;
	struct buf out;
	uint64_t received, ends_at; /* bytes of the server's */
	bool is_in_over, is_finished, is_broken;
	size_t in_at, in_len;
	char in[IN_SIZE];
};

static void relay_free(struct port_via_agent *r)
{
	if (r->call)
		file_call_cancel(r->call);
	loop_io_removep(&r->io);
	loop_timer_free(r->linger);
	if (r->fd >= 0)
		(void)close(r->fd);
	buf_done(&r->out);
	free(r);
}

static void free_late(struct loop *loop, void *arg)
{
	(void)loop;
	relay_free(arg);
}

/* The agent broke the protocol; a call into this object may be on the stack. */
static void give_up(struct port_via_agent *r)
{
	struct err err;

	if (r->is_broken)
		return;
	r->is_broken = true;
	if (r->fn) {
		(void)err_set(&err, ERR_GUEST, 0, "the sandbox's agent sent what is no connection");
		take_ptr(r->fn)(-1, &err, r->arg);
	}
	loop_defer(r->loop, free_late, r);
}

static void watch(struct port_via_agent *r)
{
	if (r->io)
		loop_io_set(r->io, (r->is_in_over || r->in_len > 0 ? 0 : EPOLLIN) |
		                           (r->out.len > 0 ? EPOLLOUT : 0));
}

static void pass_input(struct port_via_agent *r)
{
	if (r->in_len > 0 && r->call) {
		size_t n = (size_t)file_call_write(r->call, r->in + r->in_at, r->in_len);

		r->in_at += n;
		r->in_len -= n;
	}
	if (r->in_len == 0 && r->is_in_over && r->call && !r->is_finished) {
		r->is_finished = true;
		file_call_finish(r->call);
	}
}

static void lose_owner(struct port_via_agent *r)
{
	loop_io_removep(&r->io);
	(void)close(take_fd(&r->fd));
	buf_done(&r->out);
	r->is_in_over = true;
	pass_input(r);
	loop_timer_set_in(r->linger, LINGER_US);
	if (r->call)
		file_call_pause(r->call, false);
}

static void flush(struct port_via_agent *r)
{
	while (r->fd >= 0 && r->out.len > 0) {
		ssize_t n = send(r->fd, r->out.data, r->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			lose_owner(r);
		else
			buf_consume(&r->out, (size_t)n);
	}
	if (r->fd >= 0 && r->out.len == 0 && r->received >= r->ends_at)
		(void)shutdown(r->fd, SHUT_WR);
	if (r->call)
		file_call_pause(r->call, r->out.len > 0);
}

static void take_input(struct port_via_agent *r)
{
	ssize_t n = recv(r->fd, r->in, sizeof(r->in), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	r->is_in_over = n <= 0;
	r->in_at = 0;
	r->in_len = n > 0 ? (size_t)n : 0;
	pass_input(r);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct port_via_agent *r = arg;

	(void)loop;
	if (events & EPOLLOUT)
		flush(r);
	if (r->fd >= 0 && r->in_len == 0 && !r->is_in_over && (events & (EPOLLIN | EPOLLHUP)))
		take_input(r);
	if (r->fd >= 0 && r->is_in_over && (events & (EPOLLHUP | EPOLLERR)))
		lose_owner(r); /* both ways: it is closed */
	if (!r->call && r->out.len == 0)
		relay_free(r);
	else
		watch(r);
}

static void on_linger(struct loop *loop, void *arg)
{
	(void)loop;
	relay_free(arg);
}

static int hand_over(struct port_via_agent *r)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	r->fd = pair[0];
	if (loop_io_add(r->loop, r->fd, EPOLLIN, on_io, r, &r->io) < 0) {
		(void)close(pair[1]);
		return -ENOMEM;
	}
	take_ptr(r->fn)(pair[1], NULL, r->arg);
	return 0;
}

static void on_record(const struct record *record, void *arg)
{
	struct port_via_agent *r = arg;

	if (r->is_broken)
		return;
	if (record->kind == RECORD_EVENT && record->event == WATCH_READY && r->fn) {
		if (hand_over(r) < 0)
			give_up(r);
	} else if (record->kind == RECORD_COUNT && !r->fn && r->ends_at == UINT64_MAX) {
		r->ends_at = record->count;
		flush(r);
	} else {
		give_up(r);
	}
}

static void on_data(const char *data, size_t len, void *arg)
{
	struct port_via_agent *r = arg;

	r->received += len;
	if (r->is_broken || (r->fd < 0 && !r->fn)) /* nobody is there to have it */
		return;
	if (r->fn || buf_append(&r->out, data, len) < 0) {
		give_up(r);
		return;
	}
	flush(r);
	watch(r);
}

static void on_room(void *arg)
{
	struct port_via_agent *r = arg;

	pass_input(r);
	watch(r);
}

static void on_end(const struct err *err, void *arg)
{
	struct port_via_agent *r = arg;

	r->call = NULL;
	if (r->is_broken)
		return;
	if (r->fn && !err) {
		give_up(r);
		return;
	}
	if (r->fn)
		take_ptr(r->fn)(-1, err, r->arg);
	if (r->out.len == 0 || r->fd < 0)
		relay_free(r);
}

int port_via_agent_open(struct sandbox *s, int family, uint16_t port, port_via_agent_fn fn,
                        void *arg, struct port_via_agent **ret, struct err *err)
{
	static const struct file_call_ops ops = {
		.on_data = on_data, .on_record = on_record, .on_room = on_room, .on_end = on_end};
	const struct start op = {
		.kind = START_FILE,
		.op = FILE_DIAL,
		.path = unconst(family == AF_INET6 ? "::1" : "127.0.0.1"),
		.offset = port,
	};
	struct port_via_agent *r = xnew0(struct port_via_agent);
	int result;

	r->loop = s->fleet->config.loop;
	r->fn = fn;
	r->arg = arg;
	r->fd = -1;
	r->ends_at = UINT64_MAX;
	buf_init(&r->out, OUT_MAX);
	r->linger = loop_timer_new(r->loop, on_linger, r);
	result = file_call_start(s, &op, &ops, r, &r->call, err);
	if (result < 0)
		relay_free(r);
	else
		*ret = r;
	return result;
}

void port_via_agent_cancel(struct port_via_agent *r)
{
	if (!r)
		return;
	r->fn = NULL;
	if (!r->is_broken)
		relay_free(r);
}
