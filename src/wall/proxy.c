// SPDX-License-Identifier: Apache-2.0
/*
 *	reading --> reaching --> exchanging --> reading …
 *	   +------------+-------------+--> closing
 *
 * One request at a time: what a guest sends ahead waits in its buffer or its socket. Each turn
 *moves what can be moved, and then watches each end for what is missing: an end is read while its
 * buffer has room, and decoded only as far as the other end's buffer could take all of it.
 *
 * A host that is judged by its name is connected to by that name, and the connection is used again
 * for the next request only if that is for the same host and still allowed at that address.
 */
#include "wall/proxy_inside.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static void step(struct proxy *p);
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
	e->is_eof = e->is_shut = false;
}

static struct judge_facts facts_of(const struct proxy *p, const struct address *resolved)
{
	const struct host *host = p->is_tls ? &p->tls_host : &p->request.host;

	return (struct judge_facts){
		.name_state = host->is_name ? NAME_KNOWN : NAME_NONE,
		.name = host->is_name ? &host->name : NULL,
		.dialled = &p->config.dialled,
		.resolved = resolved,
		.port = p->config.port,
		.protocol = p->is_tls ? PROTOCOL_TLS : PROTOCOL_HTTP,
		.request = &p->request.judge,
	};
}

static struct judge_decision judge_at(const struct proxy *p, const struct address *resolved)
{
	const struct judge_facts facts = facts_of(p, resolved);

	return judge(p->config.door->policy, &p->config.door->all->site, &facts);
}

static bool may_dial(const struct address *a, void *arg)
{
	struct proxy *p = arg;

	p->decision = judge_at(p, a);
	return p->decision.outcome == JUDGE_ALLOW && p->decision.dial == DIAL_NAME;
}

bool proxy_is_still_allowed(const struct proxy *p)
{
	struct judge_decision d;

	if (p->state != REACHING && p->state != EXCHANGING)
		return true;
	d = judge_at(p, p->state == EXCHANGING && p->up_dial == DIAL_NAME ? &p->up_address : NULL);
	if (p->state == REACHING)
		return d.outcome == JUDGE_ALLOW || d.outcome == JUDGE_NEED_ADDRESS;
	return d.outcome == JUDGE_ALLOW && d.dial == p->up_dial;
}

static void begin_exchange(struct proxy *p)
{
	const struct policy *policy = p->config.door->policy;
	const struct policy_rule *rule =
		p->decision.rule == JUDGE_NO_RULE ? NULL : &policy->rules[p->decision.rule];
	bool is_transformed = rule && rule->action == ACTION_TRANSFORM;

	if (proxy_request_write(&p->up.out, &p->request_head, &p->request,
	                        is_transformed ? rule->headers : NULL,
	                        is_transformed ? rule->n_headers : 0) < 0) {
		proxy_answer(p, 400, WALL_DENIED, "its head cannot be sent on");
		return;
	}
	p->out_bytes += p->up.out.len;
	door_learn(p->config.door, p->request.host.is_name ? &p->request.host.name : NULL,
	           &p->up_address, p->up_dial, p->config.port);
	http_decoder_init(&p->request_body, p->request_head.framing, p->request_head.length);
	p->is_request_over = p->request_head.framing == HTTP_NO_BODY;
	proxy_move(p, EXCHANGING, EXCHANGE_US);
}

static void on_io(struct loop *loop, uint32_t events, void *arg);

static int end_open(struct end *e, int fd)
{
	struct proxy *p = e->proxy;

	transport_init(&e->t, fd);
	buf_init(&e->in, IN_MAX);
	buf_init(&e->out, OUT_MAX);
	return loop_io_add(p->loop, fd, 0, on_io, e, &e->io);
}

/* Whether the connection that is there may carry the request: at its address, by the policy of now.
 */
static bool judge_again(struct proxy *p)
{
	struct judge_decision d = judge_at(p, p->up_dial == DIAL_NAME ? &p->up_address : NULL);

	p->decision = d;
	return d.outcome == JUDGE_ALLOW && d.dial == p->up_dial;
}

/* TLS shakes hands by itself, before the first byte of the request is sent. */
static int open_up(struct proxy *p, int fd)
{
	int r = end_open(&p->up, fd);

	if (r == 0 && p->is_tls)
		r = secure_meet_server(p->config.door->all->secure, &p->up.t, &p->up_host);
	return r;
}

static void on_reached(enum reach_result result, int fd, const struct address *address, void *arg)
{
	struct proxy *p = arg;

	p->reach = NULL;
	if (result == REACH_OK) {
		p->up_address = *address;
		if (open_up(p, fd) < 0)
			proxy_answer(p, 502, WALL_FAILED, "no room");
		else if (judge_again(p))
			begin_exchange(p);
		else
			proxy_answer(p, 403, WALL_DENIED, door_why(&p->decision));
	} else if (result == REACH_DENIED) {
		proxy_answer(p, 403, WALL_DENIED, door_why(&p->decision));
	} else if (result == REACH_NO_ADDRESS) {
		proxy_answer(p, 502, WALL_FAILED, "the name has no address");
	} else {
		proxy_answer(p, 502, WALL_FAILED, "it does not answer");
	}
	step(p);
}

static void begin_reach(struct proxy *p, bool is_by_name)
{
	const struct reach_want want = {
		.loop = p->loop,
		.resolver = p->config.door->all->resolver,
		.name = is_by_name ? &p->request.host.name : NULL,
		.address = p->config.dialled,
		.port = p->config.port,
		.may_dial = may_dial,
		.done = on_reached,
		.arg = p,
	};

	proxy_end_close(&p->up);
	p->up_host = p->request.host;
	p->up_dial = is_by_name ? DIAL_NAME : DIAL_ADDRESS;
	p->state = REACHING;
	loop_timer_set(p->timer, UINT64_MAX);
	p->reach = reach_start(&want);
}

/* For the next request. */
static bool can_use_again(struct proxy *p)
{
	return p->up.t.fd >= 0 && !p->up.is_eof && host_is_equal(&p->up_host, &p->request.host) &&
	       judge_again(p);
}

static void judge_request(struct proxy *p)
{
	const struct policy *policy = p->config.door->policy;

	p->decision = judge_at(p, NULL);
	if (p->decision.outcome == JUDGE_ALLOW && p->decision.dial == DIAL_NOTHING) {
		if (policy->rules[p->decision.rule].action == ACTION_RESPOND)
			proxy_respond(p, &policy->rules[p->decision.rule]);
		else
			proxy_answer(p, 501, WALL_DENIED, "its rule asks for what is not there");
	} else if (p->decision.outcome != JUDGE_ALLOW &&
	           p->decision.outcome != JUDGE_NEED_ADDRESS) {
		proxy_answer(p, 403, WALL_DENIED, door_why(&p->decision));
	} else {
		bool is_by_name =
			p->decision.outcome == JUDGE_NEED_ADDRESS || p->decision.dial == DIAL_NAME;

		if (can_use_again(p))
			begin_exchange(p);
		else
			begin_reach(p, is_by_name);
	}
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
	judge_request(p);
}

/* Whether something was moved. */
static bool read_request(struct proxy *p)
{
	struct err err;
	int r = http_head_read(&p->request_head, &p->guest.in, &err);

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

static void step(struct proxy *p)
{
	bool has_moved = true;

	while (!p->is_over && has_moved) {
		has_moved = false;
		if (p->state == READING)
			has_moved = read_request(p);
		else if (p->state == EXCHANGING)
			has_moved = proxy_exchange(p);
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

/* Bytes that TLS holds already are not told of by epoll. */
static void on_turn(void *arg)
{
	struct end *e = arg;

	if (transport_has_pending(&e->t))
		step(e->proxy);
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

	if (size == 0 || e->is_eof)
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

static int end_write(struct end *e)
{
	ssize_t n;

	if (e->out.len == 0)
		return 0;
	n = transport_write(&e->t, e->out.data, e->out.len);
	if (n < 0)
		return n == -EAGAIN ? 0 : (int)n;
	buf_consume(&e->out, (size_t)n);
	return 0;
}

static void on_broken(struct end *e)
{
	struct proxy *p = e->proxy;
	char why[SECURE_WHY_SIZE];

	secure_explain(&e->t, e == &p->guest, why);
	if (e == &p->guest) {
		if (p->is_tls && !p->has_had_request) /* TLS itself has failed */
			proxy_record(p, WALL_FAILED, why);
		proxy_finish(p);
	} else if (p->state == EXCHANGING) {
		proxy_answer(p, 502, WALL_FAILED, why);
		step(p);
	} else {
		proxy_end_close(e); /* it was idle: the next request makes a new one */
	}
}

/* What TLS has taken from the socket already, so that epoll does not tell of it. */
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
	if (e == &p->up && p->state != EXCHANGING && (e->in.len > 0 || e->is_eof)) {
		proxy_end_close(e); /* nobody asked for it */
		return;
	}
	if (p->state == EXCHANGING)
		loop_timer_set_in(p->timer, EXCHANGE_US);
	step(p);
}

static void on_patience_end(struct loop *loop, void *arg)
{
	struct proxy *p = arg;

	(void)loop;
	if (p->state == EXCHANGING)
		proxy_record(p, WALL_FAILED, "nothing was said for too long");
	proxy_finish(p);
}

/* A guest that speaks to its server has no other to name in a target. */
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
	p->guest.t.read_wants |= EPOLLOUT; /* the first turn reads: bytes are there already */
	if (p->is_tls)
		return secure_meet_guest(door->all->secure, &p->guest.t, issuer, &p->tls_host,
		                         first);
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
	r = end_open(&p->guest, config->guest_fd);
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
	proxy_request_done(&p->request);
	http_head_done(&p->request_head);
	http_head_done(&p->reply_head);
	free(p);
}

void proxy_free(struct proxy *p)
{
	if (!p)
		return;
	p->is_over = true;
	reach_cancel(p->reach);
	proxy_end_close(&p->guest);
	proxy_end_close(&p->up);
	loop_timer_free(p->timer);
	loop_defer(p->loop, on_free, p);
}
