// SPDX-License-Identifier: Apache-2.0
/*
 *	reading --> reaching --> exchanging --> reading …
 *	   |            |             |   +----> tunnelling
 *	   +--> streaming ------------+--> closing
 *
 * One request at a time: what a guest sends ahead waits in its buffer or its socket. Each turn
 * moves what it can, and then watches each end for what is missing. An end is read while its buffer
 * has room, and decoded only as far as the other end's buffer has room. proxy_way.c finds the
 * connection for a request. A request for WebSocket is judged like any other; after it, bytes pass
 * unchanged (proxy_tunnel.c). A guest that speaks HTTP/2 has many requests at a time (h2.c).
 */
#include "wall/proxy_private.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static bool end_read_pending(struct end *e);

void proxy_finish(struct proxy *p)
{
	if (p->is_over)
		return;
	p->is_over = true;
	p->config.done(p->loop, p->config.arg);
}

void proxy_move(struct proxy *p, enum state state, uint64_t patience_us)
{
	p->state = state;
	loop_timer_set_in(p->timer, patience_us);
}

void proxy_end_close(struct end *e)
{
	loop_io_removep(&e->io);
	pace_leave(&e->turn);
	transport_close(&e->t);
	buf_done(&e->in);
	buf_done(&e->out);
	e->is_eof = e->is_shut = e->has_written = e->is_asked = false;
}

static void on_io(struct loop *loop, uint32_t events, void *arg);

int proxy_end_open(struct end *e, int fd)
{
	struct proxy *p = e->proxy;

	transport_init(&e->t, fd);
	buf_init(&e->in, IN_MAX);
	buf_init(&e->out, OUT_MAX);
	return loop_io_add(p->loop, fd, 0, on_io, e, &e->io);
}

static void begin_request(struct proxy *p)
{
	const char *why = "";
	int status = proxy_request_read(&p->request_head, &p->request, &why);

	p->has_request = status == 0;
	p->has_had_request = true;
	p->started_us = loop_now_us(p->loop);
	p->in_bytes = p->out_bytes = 0;
	p->is_reply_over = p->has_reply = false;
	p->n_interim = 0;
	p->decision = (struct judge_decision){.rule = JUDGE_NO_RULE};
	if (status != 0) {
		proxy_answer(p, status, WALL_DENIED, why);
		return;
	}
	http_head_init(&p->reply_head, HTTP_RESPONSE);
	p->reply_head.is_head_reply = strcmp(p->request_head.method, "HEAD") == 0;
	if (p->config.refusal)
		proxy_answer(p, 403, WALL_DENIED, p->config.refusal);
	else
		proxy_judge(p);
}

/* Returns whether something was moved. */
static bool read_request(struct proxy *p)
{
	struct err err;
	int r;

	if (!p->has_had_request && p->guest.in.len > 0 && secure_is_h2(&p->guest.t)) {
		p->has_had_request = true;
		p->h2 = h2_new(p);
		proxy_move(p, STREAMING, READING_US);
		return true;
	}
	r = http_head_read(&p->request_head, &p->guest.in, &err);
	if (r > 0) {
		begin_request(p);
		return true;
	}
	if (r < 0) {
		p->started_us = loop_now_us(p->loop);
		proxy_answer(p, 400, WALL_DENIED, "its request is not HTTP of one reading");
		return true;
	}
	if (!p->guest.is_eof)
		return false;
	proxy_move(p, CLOSING, CLOSING_US); /* the last reply may still be on its way */
	return true;
}

static void close_politely(struct proxy *p)
{
	if (p->guest.out.len == 0 && !p->guest.is_shut) {
		transport_shutdown(&p->guest.t);
		p->guest.is_shut = true;
	}
	buf_done(&p->guest.in); /* read on, so that the reply is not lost to a reset */
	if (p->guest.is_shut && p->guest.is_eof)
		proxy_finish(p);
}

static void end_watch(struct end *e)
{
	uint32_t events = 0;

	if (e->t.fd < 0)
		return;
	if (!e->is_eof && buf_room(&e->in) > 0 && !pace_is_waiting(&e->turn))
		events |= e->t.read_wants;
	if (e->out.len > 0)
		events |= e->t.write_wants;
	loop_io_set(e->io, events);
}

void proxy_step(struct proxy *p)
{
	bool has_moved = true;

	while (!p->is_over && has_moved) {
		has_moved = false;
		if (p->state == READING)
			has_moved = read_request(p);
		else if (p->state == EXCHANGING)
			has_moved = proxy_exchange(p);
		else if (p->state == TUNNELLING)
			has_moved = proxy_tunnel(p);
		else if (p->state == STREAMING)
			has_moved = h2_step(p->h2);
		else if (p->state == CLOSING)
			close_politely(p);
		if (!p->is_over && !has_moved)
			has_moved = end_read_pending(&p->guest) || end_read_pending(&p->up);
	}
	if (p->is_over)
		return;
	end_watch(&p->guest);
	end_watch(&p->up);
}

void proxy_wake(struct proxy *p)
{
	if (p->guest.io)
		loop_io_set(p->guest.io, EPOLLIN | EPOLLOUT);
}

/* epoll does not report bytes that TLS has already read. */
static void on_turn(void *arg)
{
	struct end *e = arg;

	if (transport_has_pending(&e->t))
		proxy_step(e->proxy);
	else
		end_watch(e);
}

static void end_init(struct end *e, struct proxy *p, struct pace *pace)
{
	e->proxy = p;
	transport_init(&e->t, -1);
	e->pace = pace;
	pace_turn_init(&e->turn, on_turn, e);
}

static int end_read(struct end *e)
{
	size_t size = buf_room(&e->in);
	char *room;
	ssize_t n;

	if (size == 0 || e->is_eof || e->is_asked)
		return 0;
	size = pace_allow(e->pace, size);
	if (size == 0) {
		pace_wait(e->pace, &e->turn);
		return 0;
	}
	if (buf_reserve(&e->in, size, &room) < 0)
		return 0;
	n = transport_read(&e->t, room, size);
	if (n < 0)
		return n == -EAGAIN ? 0 : (int)n;
	if (n == 0)
		e->is_eof = true;
	else
		buf_commit(&e->in, (size_t)n);
	if (e == &e->proxy->up) {
		e->proxy->in_bytes += (uint64_t)n;
		door_count(e->proxy->config.door, (uint64_t)n, 0);
	} else {
		door_count(e->proxy->config.door, 0, (uint64_t)n);
	}
	return 0;
}

/* -EPROTONOSUPPORT: it is to be asked again, for HTTP/1.1 alone. */
static int end_ask(struct end *e)
{
	int r = transport_handshake(&e->t);

	if (r < 0)
		return r;
	e->is_asked = false;
	return secure_is_h2(&e->t) ? -EPROTONOSUPPORT : 0;
}

static int end_write(struct end *e)
{
	ssize_t n = 0;

	if (e->out.len == 0)
		return 0;
	if (e->is_asked)
		n = end_ask(e);
	if (n < 0)
		return n == -EAGAIN ? 0 : (int)n;
	n = transport_write(&e->t, e->out.data, e->out.len);
	if (n < 0)
		return n == -EAGAIN ? 0 : (int)n;
	buf_consume(&e->out, (size_t)n);
	e->has_written |= n > 0;
	return 0;
}

bool proxy_end_is_idle(struct end *e)
{
	return e->t.fd >= 0 && end_read(e) == 0 && !e->is_eof && e->in.len == 0;
}

static void on_broken(struct end *e)
{
	struct proxy *p = e->proxy;
	char why[SECURE_WHY_SIZE];

	secure_explain(&e->t, e == &p->guest, why);
	if (e == &p->guest && p->state != TUNNELLING) {
		if (p->is_tls && !p->has_had_request) /* TLS itself has failed */
			proxy_record(p, WALL_FAILED, why);
		proxy_finish(p);
	} else if (p->state == EXCHANGING) {
		if (!proxy_try_again(p))
			proxy_answer(p, 502, WALL_FAILED, why);
		proxy_step(p);
	} else if (p->state == TUNNELLING) {
		proxy_end_tunnel(p);
	} else if (p->state == STREAMING) {
		h2_on_up_broken(p->h2, why);
		proxy_step(p);
	} else {
		proxy_end_close(e); /* it was idle: the next request makes a new one */
	}
}

/* Reads bytes that TLS has already taken from the socket: epoll does not report them. */
static bool end_read_pending(struct end *e)
{
	size_t before = e->in.len;
	int r;

	if (e->t.fd < 0 || !transport_has_pending(&e->t) || pace_is_waiting(&e->turn))
		return false;
	r = end_read(e);
	if (r < 0)
		on_broken(e);
	return r == 0 && e->in.len > before;
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct end *e = arg;
	struct proxy *p = e->proxy;
	int r = 0;

	(void)loop;
	if (p->is_over)
		return;
	if (events & e->t.write_wants)
		r = end_write(e);
	if (r == 0 && (events & (e->t.read_wants | EPOLLHUP | EPOLLERR)))
		r = end_read(e);
	if (r < 0 || (r == 0 && (events & EPOLLERR))) {
		on_broken(e);
		return;
	}
	if (e == &p->up && p->state < EXCHANGING && (e->in.len > 0 || e->is_eof)) {
		proxy_end_close(e); /* nobody asked for it */
		return;
	}
	if (p->state == EXCHANGING)
		loop_timer_set_in(p->timer, EXCHANGE_US);
	else if (p->state == STREAMING)
		loop_timer_set_in(p->timer, h2_patience_us(p->h2));
	else if (p->state == TUNNELLING && !p->guest.is_shut && !p->up.is_shut)
		loop_timer_set_in(p->timer, TUNNEL_US);
	proxy_step(p);
}

static void on_patience_end(struct loop *loop, void *arg)
{
	struct proxy *p = arg;

	(void)loop;
	if (p->state == TUNNELLING) {
		proxy_end_tunnel(p);
		return;
	}
	if (p->state == STREAMING) {
		h2_on_patience_end(p->h2);
		proxy_step(p);
		return;
	}
	if (p->state == EXCHANGING)
		proxy_record(p, WALL_FAILED, "nothing was said for too long");
	proxy_finish(p);
}

/* Inside TLS the guest speaks to its server itself, so a target may not name a host. */
enum http_kind proxy_request_kind(const struct proxy *p)
{
	return p->is_tls ? HTTP_REQUEST : HTTP_PROXY_REQUEST;
}

static int take_first(struct proxy *p, const struct buf *first)
{
	struct door *door = p->config.door;
	struct issuer *issuer = p->is_tls ? door_issuer(door) : NULL;

	if (p->is_tls && !issuer)
		return -ENOTSUP;
	if (issuer && !p->config.refusal && !policy_opens_tls(door->policy))
		return -EPERM;             /* the shared issuer is for refusals alone (issuer.h) */
	p->guest.t.read_wants |= EPOLLOUT; /* the first turn reads: bytes are there already */
	if (p->is_tls)
		return secure_meet_guest(door->all->secure, &p->guest.t, issuer, &p->tls_host,
		                         proxy_prefers_h2(p), first);
	p->guest.in.cap = MAX(IN_MAX, first->len);
	return buf_append(&p->guest.in, first->data, first->len);
}

int proxy_new(const struct proxy_config *config, struct proxy **ret)
{
	struct proxy *p = xnew0(struct proxy);
	int r;

	p->config = *config;
	p->loop = config->door->all->loop;
	end_init(&p->guest, p, &config->door->out_pace);
	end_init(&p->up, p, &config->door->in_pace);
	p->is_tls = config->tls_host != NULL;
	if (p->is_tls)
		p->tls_host = *config->tls_host;
	p->timer = loop_timer_new(p->loop, on_patience_end, p);
	http_head_init(&p->request_head, proxy_request_kind(p));
	http_head_init(&p->reply_head, HTTP_RESPONSE);
	r = proxy_end_open(&p->guest, config->guest_fd);
	if (r == 0)
		r = take_first(p, config->first);
	if (r < 0) {
		proxy_free(p);
		return r;
	}
	door_count(config->door, 0, config->first->len);
	proxy_move(p, READING, READING_US);
	loop_io_set(p->guest.io, EPOLLIN | EPOLLOUT); /* a first turn, from the loop */
	*ret = p;
	return 0;
}

static void on_free(struct loop *loop, void *arg)
{
	struct proxy *p = arg;

	(void)loop;
	h2_free(p->h2);
	scrub_free(p->scrub);
	proxy_request_done(&p->request);
	http_head_done(&p->request_head);
	http_head_done(&p->reply_head);
	policy_target_done(&p->up_target);
	free(p);
}

void proxy_free(struct proxy *p)
{
	if (!p)
		return;
	p->is_over = true;
	h2_end(p->h2);
	reach_cancel(p->reach);
	proxy_end_close(&p->guest);
	proxy_end_close(&p->up);
	loop_timer_free(p->timer);
	loop_defer(p->loop, on_free, p);
}
