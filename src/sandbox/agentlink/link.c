// SPDX-License-Identifier: Apache-2.0
/*
 * Fairness: a turn reads at most READ_MAX bytes and handles at most FRAMES_A_TURN frames. Complete
 * frames that are not handled yet wait for the next turn, and nothing more is read meanwhile. So an
 * agent that floods costs its neighbours a bounded time per turn, and memory is bounded by one
 * frame and one read. Links of one project share its part of a turn (loop/loop.h).
 *
 * That bounds a single turn. The rate of acknowledged output bounds what endless output costs: CPU
 * here and in the agent, which the sandbox's limits do not cover, and disk. When its window is full
 * the agent reads no more, and the program waits. All sandboxes of a project together get no more
 * than a few of them would, so that a project cannot flood its neighbours with many sandboxes. File
 * transfers are not paced: their caller waits for them.
 *
 * The write queue is bounded too. Input stops at INPUT_QUEUE_MAX; the rest is a reserve for control
 * frames, whose number is bounded by what the owners do. An agent that does not read fails the
 * heartbeat: PINGs every few seconds while a channel is open, rarely otherwise. A PING without an
 * answer in time makes the link unhealthy until the answer comes.
 *
 * Frames that are queued in a turn are sent in one write at its end, or earlier, before a caller is
 * told that they were sent. Much data does not wait for that: it would be copied for it.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/agentlink/link_private.h"

#include <assert.h>
#include <endian.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define READ_MAX        (124 * 1024) /* one of 128 KiB would be mapped and unmapped (memory.c) */
#define FRAMES_A_TURN   256
#define INPUT_QUEUE_MAX (1024 * 1024)
#define QUEUE_MAX       (2 * 1024 * 1024)
#define MUCH            (16 * 1024)
#define RESEND_US                                                                                  \
	10000 /* the kernel lacked memory for a send; nothing reports when it has some             \
	       */

const struct link_timing link_timing_usual = {
	.greet_us = 10 * SECOND_US,
	.ping_busy_us = 5 * SECOND_US,
	.ping_idle_us = 30 * SECOND_US,
	.pong_us = 10 * SECOND_US,
	.hang_us = 60 * SECOND_US,
	.output_rate = 64 * 1024 * 1024,
	.burst_us = SECOND_US / 4,
	.frame_us = 20,
};

void link_set_paced(struct link *l, bool is_paced)
{
	if (l->share && is_paced && !l->is_paced)
		l->share->n_paced++;
	if (l->share && !is_paced && l->is_paced)
		l->share->n_paced--;
	l->is_paced = is_paced;
}

void link_hang_up(struct link *l)
{
	if (l->state == LINK_DOWN)
		return;
	loop_io_removep(&l->io);
	(void)close(take_fd(&l->fd));
	l->state = LINK_DOWN;
	l->is_healthy = false;
	l->ping = 0;
	l->has_frames = false;
	loop_timer_set(l->resend, UINT64_MAX);
	loop_timer_set(l->pace, UINT64_MAX);
	link_set_paced(l, false);
	loop_timer_set(l->beat, UINT64_MAX);
	buf_done(&l->in);
	buf_done(&l->out);
	close_fd(&l->given_fd);
	close_fd(&l->passed_fd);
}

static void link_down(struct link *l, bool is_hostile, const struct err *why)
{
	link_hang_up(l);
	l->ops->on_down(why, is_hostile, l->arg);
}

static void link_lost(struct link *l, int errnum, const char *what)
{
	struct err err;

	(void)err_set(&err, ERR_GUEST, errnum, "%s", what);
	link_down(l, /* is_hostile= */ false, &err);
}

static void link_hostile(struct link *l, const char *what)
{
	struct err err;

	(void)err_set(&err, ERR_GUEST, 0, "the sandbox's agent broke the protocol: %s", what);
	link_down(l, /* is_hostile= */ true, &err);
}

static void watch(struct link *l)
{
	const bool is_room_awaited = l->out.len > 0 && !loop_timer_is_set(l->resend);

	loop_io_set(l->io, (l->has_frames ? 0 : EPOLLIN) | (is_room_awaited ? EPOLLOUT : 0));
}

/* Returns < 0 when nothing more can be written. */
static int flush(struct link *l)
{
	loop_timer_set(l->resend, UINT64_MAX);
	while (l->out.len > 0) {
		ssize_t n = fd_send(l->fd, l->out.data, l->out.len, &l->passed_fd,
		                    l->passed_fd >= 0 ? 1 : 0);

		if (n == -ENOMEM || n == -ENOBUFS)
			loop_timer_set_in(l->resend, RESEND_US);
		else if (n < 0 && n != -EAGAIN)
			return (int)n;
		if (n < 0)
			break;
		close_fd(&l->passed_fd);
		buf_consume(&l->out, (size_t)n);
	}
	if (l->out.len == 0)
		buf_done(&l->out);
	watch(l);
	return 0;
}

static void on_resend(struct loop *loop, void *arg)
{
	struct link *l = arg;
	int r = flush(l);

	(void)loop;
	/* Reading finds a reset too, after the frames that came before it. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		link_lost(l, -r, "cannot write to the sandbox's agent");
}

static void flush_due(struct loop *loop, void *arg)
{
	struct link *l = arg;

	l->is_flush_due = false;
	if (!l->is_dead && l->fd >= 0)
		on_resend(loop, l);
}

void link_flush(struct link *l)
{
	if (l->state == LINK_UP)
		(void)!flush(l); /* what failed is found at the end of the turn */
}

bool link_has_room(const struct link *l)
{
	return l->state == LINK_UP && l->out.len < INPUT_QUEUE_MAX;
}

static void flush_later(struct link *l)
{
	if (l->is_flush_due)
		return;
	l->is_flush_due = true;
	loop_defer(l->loop, flush_due, l);
}

int link_send(struct link *l, enum frame_type type, uint32_t channel, const void *payload,
              size_t len)
{
	int r;

	if (l->state == LINK_DOWN || (l->state == LINK_GREETING && type != FRAME_HELLO))
		return -ENOTCONN;
	r = frame_put(&l->out, type, channel, l->epoch, payload, len);
	if (r < 0)
		return r;
	flush_later(l);
	return 0;
}

int link_send_data(struct link *l, enum frame_type type, uint32_t channel, const char *data,
                   size_t len)
{
	struct iovec parts[2] = {{.iov_len = FRAME_HEAD_SIZE},
	                         {.iov_base = unconst(data), .iov_len = len}};
	const struct msghdr msg = {.msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts)};
	char *room;
	ssize_t n;
	int r;

	if (l->state != LINK_UP || l->out.len > 0 || len < MUCH)
		return link_send(l, type, channel, data, len);
	r = buf_reserve(&l->out, FRAME_HEAD_SIZE + len, &room); /* nothing fails halfway */
	if (r >= 0)
		r = frame_put_head(&l->out, type, channel, l->epoch, len);
	if (r < 0)
		return r;
	parts[0].iov_base = l->out.data;
	n = sendmsg(l->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	n = MAX(n, 0); /* flush() finds why not */
	buf_consume(&l->out, (size_t)MIN(n, FRAME_HEAD_SIZE));
	n = MAX(n - FRAME_HEAD_SIZE, 0);
	flush_later(l);
	return buf_append(&l->out, data + n, len - (size_t)n);
}

static int send_hello(struct link *l)
{
	auto_call(buf_done) struct buf payload = BUF_INIT(256);
	struct pack p = {.out = &payload};
	unsigned char seed[32];

	random_bytes(seed, sizeof(seed));
	pack_u32(&p, FRAME_VERSION);
	pack_u64(&p, clock_wall_us());
	for (size_t i = 0; i < sizeof(seed); i++)
		pack_u8(&p, seed[i]);
	pack_str(&p, l->hostname);
	return p.error < 0 ? p.error : link_send(l, FRAME_HELLO, 0, payload.data, payload.len);
}

void link_set_beat(struct link *l)
{
	if (l->state == LINK_UP && l->ping == 0)
		loop_timer_set_in(l->beat,
		                  l->channels ? l->timing.ping_busy_us : l->timing.ping_idle_us);
}

static void set_health(struct link *l, bool is_healthy)
{
	if (l->is_healthy == is_healthy)
		return;
	l->is_healthy = is_healthy;
	if (!is_healthy)
		channel_tell_silent(l);
	l->ops->on_health(is_healthy, l->arg);
}

static void send_ping(struct link *l)
{
	uint64_t word;

	l->ping = ++l->last_ping;
	word = htole64(l->ping);
	/* If the queue is full no PING is sent, and the missing PONG rightly counts as no
	 * answer. */
	if (link_send(l, FRAME_PING, 0, &word, sizeof(word)) < 0)
		log_debug("link.full", "queued=%zu", l->out.len);
	loop_timer_set_in(l->beat, l->timing.pong_us);
}

/* An agent that was just thawed gets the full time to answer. */
static bool is_excused(struct link *l)
{
	const bool was_still = l->is_still;

	l->is_still = l->ops->is_still && l->ops->is_still(l->arg);
	return l->is_still || was_still;
}

static void begin_silence(struct link *l)
{
	loop_timer_set_in(l->beat, l->timing.hang_us);
	set_health(l, false);
}

static void on_beat(struct loop *loop, void *arg)
{
	struct link *l = arg;

	(void)loop;
	if (l->state == LINK_GREETING) {
		link_lost(l, 0, "the sandbox's agent does not answer");
		return;
	}
	if (l->ping == 0)
		send_ping(l);
	else if (is_excused(l))
		loop_timer_set_in(l->beat, l->timing.pong_us);
	else if (l->is_healthy)
		begin_silence(l);
	else if (l->ops->on_hung)
		l->ops->on_hung(l->arg);
}

static int on_pong(struct link *l, const struct frame *f)
{
	struct unpack u = {.data = f->payload, .len = f->len};
	uint64_t number = unpack_u64(&u);

	if (unpack_end(&u) < 0 || l->ping == 0 || number != l->ping)
		return -EPROTO;
	l->ping = 0;
	link_set_beat(l);
	set_health(l, true);
	return 0;
}

static int on_welcome(struct link *l, const struct frame *f)
{
	struct unpack u = {.data = f->payload, .len = f->len};
	int r;

	if (unpack_u32(&u) != FRAME_VERSION)
		return -EPROTO;
	l->state = LINK_UP;
	l->is_healthy = true;
	r = channel_on_welcome(l, &u);
	if (r < 0 || l->is_dead || l->fd < 0)
		return r;
	link_set_beat(l);
	l->ops->on_up(l->arg);
	return 0;
}

static int on_frame(struct link *l, const struct frame *f)
{
	if (l->state == LINK_GREETING) {
		/* A frame of an earlier connection, which a restored or replaced agent still had to
		 * send. */
		if (f->epoch != l->epoch)
			return 0;
		return f->type == FRAME_WELCOME ? on_welcome(l, f) : -EPROTO;
	}
	if (f->epoch != l->epoch || f->type == FRAME_WELCOME)
		return -EPROTO;
	return f->type == FRAME_PONG ? on_pong(l, f) : channel_on_frame(l, f);
}

static void handle_frames(struct link *l)
{
	struct frame f;
	int r = 0;

	for (int i = 0; i < FRAMES_A_TURN; i++) {
		r = frame_get(&l->in, FRAME_FROM_AGENT, &f);
		if (r <= 0)
			break;
		r = on_frame(l, &f);
		if (l->is_dead || l->fd < 0)
			return;
		if (r < 0)
			break;
		frame_consume(&l->in, &f);
		r = 1;
	}
	if (r < 0) {
		link_hostile(l, "a frame that is malformed or has no place here");
		return;
	}
	l->has_frames = r > 0;
	if (l->has_frames)
		loop_io_again(l->io); /* the next turn, behind the neighbours */
	else if (l->in.len == 0)
		buf_done(&l->in); /* an idle link holds no memory */
	watch(l);
}

static void on_pace(struct loop *loop, void *arg)
{
	(void)loop;
	channel_ack_due(arg);
}

/* Takes fds only while one is awaited, and then one at a time: the sender is not trusted. */
static ssize_t read_bytes(struct link *l, char *room)
{
	int fds[FD_PASS_MAX];
	size_t n_fds = 0;
	ssize_t n;

	if (l->n_awaited > 0) {
		n = fd_recv(l->fd, room, READ_MAX, fds, &n_fds);
		for (size_t i = 0; i < n_fds; i++) {
			close_fd(&l->given_fd);
			l->given_fd = fds[i];
		}
		return n;
	}
	do
		n = recv(l->fd, room, READ_MAX, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static void receive(struct link *l)
{
	char *room;
	ssize_t n;

	if (buf_reserve(&l->in, READ_MAX, &room) < 0)
		abort(); /* the cap has room for a frame and a read, and whole frames were taken */
	n = read_bytes(l, room);
	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		link_lost(l, (int)-n, "the connection to the sandbox's agent ended");
		return;
	}
	buf_commit(&l->in, (size_t)n);
	handle_frames(l);
}

static void link_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct link *l = arg;

	(void)loop;
	if ((events & EPOLLOUT) && flush(l) == 0 && link_has_room(l))
		channel_tell_room(l);
	if (l->is_dead || l->fd < 0)
		return;
	if (l->has_frames)
		handle_frames(l);
	else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(l);
}

struct link *link_new(struct loop *loop, const char *hostname, const struct link_timing *timing,
                      const struct link_ops *ops, void *arg)
{
	struct link *l = xnew0(struct link);

	*l = (struct link){.loop = loop,
	                   .timing = timing ? *timing : link_timing_usual,
	                   .ops = ops,
	                   .arg = arg,
	                   .fd = -1,
	                   .given_fd = -1,
	                   .passed_fd = -1,
	                   .floor = 1};
	(void)snprintf(l->hostname, sizeof(l->hostname), "%s", hostname);
	buf_init(&l->in, FRAME_HEAD_SIZE + FRAME_PAYLOAD_MAX + READ_MAX);
	buf_init(&l->out, QUEUE_MAX);
	l->resend = loop_timer_new(loop, on_resend, l);
	l->pace = loop_timer_new(loop, on_pace, l);
	l->beat = loop_timer_new(loop, on_beat, l);
	return l;
}

void link_set_share(struct link *l, struct share *share)
{
	const bool was_paced = l->is_paced;

	link_set_paced(l, false);
	l->share = share;
	link_set_paced(l, was_paced);
	if (l->io)
		loop_io_set_share(l->io, share ? &share->turn : NULL);
}

static void free_link(struct loop *loop, void *arg)
{
	struct link *l = arg;

	(void)loop;
	buf_done(&l->in);
	buf_done(&l->out);
	free(l);
}

void link_free(struct link *l)
{
	if (!l)
		return;
	while (l->channels)
		channel_detach(l->channels);
	l->is_dead = true;
	close_fd(&l->given_fd);
	close_fd(&l->passed_fd);
	link_set_paced(l, false);
	loop_io_removep(&l->io);
	if (l->fd >= 0)
		(void)close(take_fd(&l->fd));
	loop_timer_free(l->resend);
	loop_timer_free(l->pace);
	loop_timer_free(l->beat);
	loop_defer(l->loop, free_link, l); /* a frame of it may be being handled */
}

void link_attach(struct link *l, int fd)
{
	uint32_t now_s = (uint32_t)(clock_wall_us() / SECOND_US);
	int r;

	assert(l->state == LINK_DOWN);
	/* Grows with each connection, also across our restarts, without being stored. */
	l->epoch = MAX(l->epoch + 1, now_s);
	l->fd = fd;
	l->state = LINK_GREETING;
	r = fd_set_nonblock(fd, true);
	if (r == 0)
		r = loop_io_add(l->loop, fd, EPOLLIN, link_on_io, l, &l->io);
	if (r == 0)
		loop_io_set_share(l->io, l->share ? &l->share->turn : NULL);
	if (r == 0)
		r = send_hello(l);
	if (r < 0)
		log_error("link.attach", "error='%s'", strerror(-r));
	/* A link that could not be set up is treated as silent. */
	loop_timer_set_in(l->beat, r < 0 ? 0 : l->timing.greet_us);
}

bool link_is_down(const struct link *l)
{
	return l->state == LINK_DOWN;
}

bool link_is_up(const struct link *l)
{
	return l->state == LINK_UP;
}

bool link_is_healthy(const struct link *l)
{
	return l->state == LINK_UP && l->is_healthy;
}
