// SPDX-License-Identifier: Apache-2.0
/*
 * A new connection replaces the old one: the host that comes back after a crash must not wait for
 * the kernel to notice the death of the other. HELLO comes first and names the epoch; any other
 * frame before it, a malformed one, or one of another epoch ends the connection and nothing else.
 *
 * The queue to the host is filled only to its low-water mark, channel by channel in turn, so it
 * stays small however many channels flood, and a host that does not read stops output, not us.
 *
 * A connection is a socket, or in a vm the port's, which brings and takes bytes by function calls:
 * a socket in between would cost an emulated machine more than all that is done with a frame.
 */
#include "agent/host/host_link.h"

#include "agent/host/quiet.h"
#include "agent/process/channel.h"
#include "base/fd.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define READ_SIZE   (64 * 1024)
#define LAST_READS  64 /* more than a socket holds */
#define IN_MAX      (FRAME_HEAD_SIZE + FRAME_PAYLOAD_MAX + READ_SIZE)
#define OUT_LOW     (128 * 1024) /* below it channels are asked */
#define OUT_MAX     (OUT_LOW + FRAME_HEAD_SIZE + FRAME_PAYLOAD_MAX) /* room for any one frame */
#define HELLO_BYTES 32 /* randomness for a vm's kernel */

struct host_link {
	struct agent *agent;
	struct loop_io *listen_io;
	int fd;       /* -1: nobody is connected to a socket */
	int asker_fd; /* the connection of who has asked for quiet, or -1 */
	struct loop_io *io;
	bool is_port; /* connected by the port */
	struct buf in, out;
	bool has_hello, is_kicked;
	uint32_t epoch;
	bool has_ping;
	unsigned char ping[8];
	int given_fd; /* came with bytes of the START that it is for, or before; -1: none */
};

static void disconnect(struct host_link *w)
{
	loop_io_removep(&w->io);
	if (w->fd >= 0)
		(void)close(w->fd);
	w->fd = -1;
	w->is_port = false;
	buf_done(&w->in);
	buf_done(&w->out);
	w->has_hello = w->has_ping = false;
	close_fd(&w->given_fd);
	close_fd(&w->agent->passed_fd);
}

static int put_welcome(struct host_link *w)
{
	auto_call(buf_done) struct buf payload = BUF_INIT(FRAME_PAYLOAD_MAX);
	struct pack p = {.out = &payload};

	pack_u32(&p, FRAME_VERSION);
	pack_u32(&p, (uint32_t)w->agent->n_channels);
	list_for_each (&w->agent->channels, struct channel, c, link) {
		if (c->is_forgotten)
			continue;
		pack_u32(&p, c->number);
		pack_str(&p, c->tag);
		pack_u8(&p, (uint8_t)channel_state(c));
		pack_u64(&p, c->output.acked);
		pack_u64(&p, c->output.end);
	}
	if (p.error < 0)
		return p.error;
	return frame_put(&w->out, FRAME_WELCOME, 0, w->epoch, payload.data, payload.len);
}

/* Clock, randomness and host name are for the init of a vm; a jail's are the engine's work. */
static int on_hello(struct host_link *w, const struct frame *f)
{
	struct unpack u = {.data = f->payload, .len = f->len};
	auto_free char *hostname = NULL;

	if (w->has_hello || unpack_u32(&u) != FRAME_VERSION)
		return -EPROTO;
	(void)unpack_u64(&u);
	for (size_t i = 0; i < HELLO_BYTES; i++)
		(void)unpack_u8(&u);
	hostname = unpack_str(&u, FRAME_HOSTNAME_MAX);
	if (unpack_end(&u) < 0)
		return -EPROTO;
	w->has_hello = true;
	w->epoch = f->epoch;
	list_for_each (&w->agent->channels, struct channel, c, link)
		channel_hold(c);
	return put_welcome(w);
}

/* A channel past the limit is answered without being made. */
static int refuse_start(struct host_link *w, uint32_t number)
{
	auto_call(buf_done) struct buf payload = BUF_INIT(512);
	struct channel_exit e = {.how = EXIT_FAILED,
	                         .value = EAGAIN,
	                         .message = "the sandbox has too many execs and file operations"};
	int r = channel_exit_encode(&e, &payload);

	if (r >= 0)
		r = frame_put(&w->out, FRAME_EXIT, number, w->epoch, payload.data, payload.len);
	return r < 0 ? r : frame_put(&w->out, FRAME_CLOSED, number, w->epoch, NULL, 0);
}

static int on_start(struct host_link *w, const struct frame *f)
{
	struct start s;
	int r;

	if (channel_find(w->agent, f->channel))
		return -EPROTO;
	r = start_decode(f->payload, f->len, &s);
	if (r < 0)
		return r;
	if (w->agent->n_channels >= FRAME_CHANNELS)
		r = refuse_start(w, f->channel);
	else
		channel_start(w->agent, f->channel, &s,
		              s.kind == START_COPIED ? take_fd(&w->given_fd) : -1);
	start_done(&s);
	return r;
}

static int on_shutdown(struct host_link *w)
{
	channel_kill_all(w->agent);
	loop_stop(w->agent->loop);
	return 0;
}

/* The connection's end is the answer: it comes when all is quiet, however this one ends here. */
static int on_quiesce(struct host_link *w, const struct frame *f)
{
	if (w->has_hello || !w->agent->quiet)
		return -EPROTO;
	host_link_tell_quiet(w); /* there is one who asks at a time */
	w->asker_fd = fcntl(w->fd, F_DUPFD_CLOEXEC, 0);
	quiet_begin(w->agent->quiet, f->payload);
	return -ESHUTDOWN;
}

static int on_channel_frame(struct channel *c, const struct frame *f)
{
	struct unpack u = {.data = f->payload, .len = f->len};
	uint16_t rows;
	uint8_t signo;

	switch (f->type) {
	case FRAME_INPUT:
		return input_put(&c->input, f->payload, f->len);
	case FRAME_INPUT_END:
		input_end(&c->input);
		return 0;
	case FRAME_ACK:
		return channel_ack(c, unpack_u64(&u));
	case FRAME_SIGNAL:
		signo = unpack_u8(&u);
		return channel_signal(c, signo, (enum frame_scope)unpack_u8(&u));
	case FRAME_RESIZE:
		rows = unpack_u16(&u);
		channel_resize(c, rows, unpack_u16(&u));
		return 0;
	case FRAME_RESUME:
		return channel_resume(c, unpack_u64(&u));
	case FRAME_FORGET:
		channel_forget(c);
		return 0;
	default: /* the rest is not for a channel, or the agent's own to send */
		return -EPROTO;
	}
}

static int on_frame(struct host_link *w, const struct frame *f)
{
	const struct transport *transport = w->agent->transport;
	struct channel *c;

	if (f->type == FRAME_HELLO)
		return on_hello(w, f);
	if (f->type == FRAME_QUIESCE)
		return on_quiesce(w, f);
	if (!w->has_hello || f->epoch != w->epoch)
		return -EPROTO;
	if (transport)
		transport->settle(transport->arg);
	if (f->type == FRAME_START)
		return on_start(w, f);
	if (f->type == FRAME_SHUTDOWN)
		return on_shutdown(w);
	if (f->type == FRAME_PING) {
		memcpy(w->ping, f->payload, sizeof(w->ping));
		w->has_ping = true;
		return 0;
	}
	c = channel_find(w->agent, f->channel);
	return c ? on_channel_frame(c, f) : 0; /* one refused at its START is still spoken of */
}

static int take_frames(struct host_link *w)
{
	struct frame f;
	int r;

	while ((r = frame_get(&w->in, FRAME_FROM_HOST, &f)) > 0) {
		r = on_frame(w, &f);
		if (r < 0)
			return r;
		frame_consume(&w->in, &f);
	}
	if (w->in.len == 0)
		buf_done(&w->in);
	return r;
}

static void keep_last(struct host_link *w, const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		close_fd(&w->given_fd);
		w->given_fd = fds[i];
	}
}

/* 1: there may be more, 0: not now; < 0: the connection is over. */
static int read_frames(struct host_link *w)
{
	int fds[FD_PASS_MAX];
	size_t n_fds = 0;
	char *room;
	ssize_t n;
	int r = buf_reserve(&w->in, READ_SIZE, &room);

	if (r < 0)
		return r;
	n = fd_recv(w->fd, room, READ_SIZE, fds, &n_fds);
	keep_last(w, fds, n_fds);
	if (n < 0)
		return n == -EAGAIN ? 0 : (int)n;
	if (n == 0)
		return -ECONNRESET;
	buf_commit(&w->in, (size_t)n);
	r = take_frames(w);
	return r < 0 ? r : 1;
}

/* The host is gone or has come anew. What it had sent is done all the same: a start that it has
 * promised to somebody may be in it. */
static void hang_up(struct host_link *w)
{
	for (int i = 0; i < LAST_READS && w->fd >= 0 && read_frames(w) > 0; i++)
		continue;
	disconnect(w);
}

/* It cannot be spoken to any more. */
static void give_up(struct host_link *w)
{
	const bool was_port = w->is_port;

	hang_up(w);
	if (was_port)
		w->agent->transport->end(w->agent->transport->arg);
}

/* One frame from each ready channel in turn, up to the low-water mark. */
static int fill_out(struct host_link *w)
{
	int r;

	if (w->has_ping && w->out.len < OUT_LOW) {
		r = frame_put(&w->out, FRAME_PONG, 0, w->epoch, w->ping, sizeof(w->ping));
		if (r < 0)
			return r;
		w->has_ping = false;
	}
	while (w->out.len < OUT_LOW && !list_empty(&w->agent->ready)) {
		struct channel *c = list_entry(w->agent->ready.next, struct channel, ready);

		r = channel_emit(c, &w->out, w->epoch);
		if (r < 0)
			return r;
		list_remove(&c->ready);
		if (r > 0)
			list_append(&w->agent->ready, &c->ready);
	}
	return 0;
}

/* How many of the bytes were taken: 0 when there is no room for them now. */
static ssize_t send_out(struct host_link *w)
{
	const struct transport *transport = w->agent->transport;
	ssize_t n;

	if (w->is_port)
		return (ssize_t)transport->send(transport->arg, w->out.data, w->out.len);
	n = fd_send(w->fd, w->out.data, w->out.len, &w->agent->passed_fd,
	            w->agent->passed_fd >= 0 ? 1 : 0);
	if (n > 0 && w->agent->passed_fd >= 0) {
		close_fd(&w->agent->passed_fd);
		list_for_each (&w->agent->channels, struct channel, c, link)
			if (c->has_imprint) /* it has waited for this one */
				channel_wake(c);
	}
	return n == -EAGAIN ? 0 : n;
}

static int write_out(struct host_link *w)
{
	int r = 0;

	for (;;) {
		ssize_t n;

		r = w->has_hello ? fill_out(w) : 0;
		if (r < 0 || w->out.len == 0)
			break;
		n = send_out(w);
		if (n < 0)
			return (int)n;
		if (n == 0)
			break;
		buf_consume(&w->out, (size_t)n);
	}
	if (w->out.len == 0)
		buf_done(&w->out);
	if (w->io)
		loop_io_set(w->io, w->out.len > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
	return r;
}

static void host_link_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct host_link *w = arg;
	int r = 0;

	(void)loop;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = read_frames(w);
	if (r < 0)
		disconnect(w);
	else if (write_out(w) < 0)
		hang_up(w);
}

static void write_kicked(struct loop *loop, void *arg)
{
	struct host_link *w = arg;

	(void)loop;
	w->is_kicked = false;
	if ((w->fd >= 0 || w->is_port) && write_out(w) < 0)
		give_up(w);
}

void host_link_kick(struct host_link *w)
{
	if (w->is_kicked || (w->fd < 0 && !w->is_port))
		return;
	w->is_kicked = true;
	loop_defer(w->agent->loop, write_kicked, w);
}

void host_link_attach_port(struct host_link *w)
{
	hang_up(w);
	w->is_port = true;
}

void host_link_take(struct host_link *w, const char *data, size_t len)
{
	int r = buf_append(&w->in, data, len);

	if (r >= 0)
		r = take_frames(w);
	if (r >= 0)
		r = write_out(w);
	if (r < 0)
		give_up(w);
}

void host_link_detach(struct host_link *w)
{
	hang_up(w);
}

static void attach(struct host_link *w, int fd)
{
	hang_up(w);
	if (loop_io_add(w->agent->loop, fd, EPOLLIN, host_link_on_io, w, &w->io) < 0)
		(void)close(fd);
	else
		w->fd = fd;
}

static void host_link_on_accept(struct loop *loop, uint32_t events, void *arg)
{
	struct host_link *w = arg;
	int fd = accept4(w->agent->settings.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)loop;
	(void)events;
	if (fd >= 0)
		attach(w, fd);
}

void host_link_quiesce(struct host_link *w)
{
	hang_up(w);
	loop_io_removep(&w->listen_io);
	if (w->agent->settings.listen_fd >= 0)
		(void)close(take_fd(&w->agent->settings.listen_fd));
}

void host_link_tell_quiet(struct host_link *w)
{
	if (w->asker_fd >= 0)
		(void)close(take_fd(&w->asker_fd));
}

int host_link_listen(struct host_link *w)
{
	const int fd = w->agent->settings.listen_fd;
	int r = fd_set_nonblock(fd, true);

	return r < 0 ? r
	             : loop_io_add(w->agent->loop, fd, EPOLLIN, host_link_on_accept, w,
	                           &w->listen_io);
}

int host_link_new(struct agent *a, struct host_link **ret, struct err *err)
{
	struct host_link *w = xnew0(struct host_link);
	int r = 0;

	w->agent = a;
	w->fd = w->asker_fd = w->given_fd = -1;
	buf_init(&w->in, IN_MAX);
	buf_init(&w->out, OUT_MAX);
	if (a->settings.listen_fd >= 0)
		r = host_link_listen(w);
	if (r < 0) {
		free(w);
		return err_set(err, ERR_INTERNAL, -r, "cannot serve the listener");
	}
	*ret = w;
	return 0;
}

void host_link_free(struct host_link *w)
{
	if (!w)
		return;
	disconnect(w);
	loop_io_removep(&w->listen_io);
	free(w);
}
