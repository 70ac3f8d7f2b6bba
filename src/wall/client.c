// SPDX-License-Identifier: Apache-2.0
/*
 * A call ends exactly once: by the wall's answer, the wall's death, or its timeout. Messages from
 * the wall are not trusted, because the wall reads bytes from guests and the internet.
 */
#include "wall/client.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/units.h"
#include "wall/transport/issuer.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <uthash.h>

#define PATIENCE_US     (10 * SECOND_US)
#define MESSAGES_A_TURN 64
#define MESSAGE_MAX     (sizeof(struct wall_decision) + ISSUER_PEM_MAX)

struct call {
	struct wall_client *client;
	uint64_t tag;
	wall_fn fn;
	void *arg;
	int error; /* known before it was sent */
	struct loop_timer *timer;
	UT_hash_handle hh;
};

struct wall_client {
	struct loop *loop;
	struct wall_ops ops;
	void *arg;
	int fd;
	struct loop_io *io;
	uint64_t last_tag;
	uint64_t silent_since_us; /* by the loop's clock; 0: it owes nothing */
	struct call *calls;
};

static void call_free(struct call *c)
{
	HASH_DEL(c->client->calls, c);
	loop_timer_free(c->timer);
	free(c);
}

static void call_end(struct call *c, int error, const char *certificate)
{
	wall_fn fn = c->fn;
	void *arg = c->arg;

	call_free(c);
	if (fn)
		fn(error, certificate, arg);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct call *c = arg;

	(void)loop;
	call_end(c, c->error ? c->error : -ETIMEDOUT, "");
}

static struct call *find(struct wall_client *c, uint64_t tag)
{
	struct call *call = NULL;

	HASH_FIND(hh, c->calls, &tag, sizeof(tag), call);
	return call;
}

static void detach(struct wall_client *c)
{
	loop_io_removep(&c->io);
	if (c->fd >= 0)
		(void)close(take_fd(&c->fd));
	c->silent_since_us = loop_now_us(c->loop);
	for (struct call *call = c->calls; call; call = call->hh.next) { /* told from the loop */
		call->error = -EPIPE;
		loop_timer_set_in(call->timer, 0);
	}
}

/* Accepts one PEM block and nothing else: it is written to a file that programs in the sandbox
 * read. */
static bool is_certificate(const char *text)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----\n";
	static const char end[] = "-----END CERTIFICATE-----\n";
	const char *at = text + strlen(begin);

	if (strncmp(text, begin, strlen(begin)) != 0)
		return false;
	at += strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n");
	return strcmp(at, end) == 0;
}

static void on_answer(struct wall_client *c, const struct wall_head *head, const char *text)
{
	struct call *call = find(c, head->tag);
	int error = head->error > 4095 ? -EPROTO : -(int)head->error;

	if (call)
		call_end(call, error, is_certificate(text) ? text : "");
}

static void on_message(struct wall_client *c, char *data, size_t len)
{
	struct wall_head head;
	struct wall_decision d;
	struct wall_bytes b;
	struct wall_dial dial;

	memcpy(&head, data, sizeof(head));
	head.id[sizeof(head.id) - 1] = '\0';
	if (head.op == WALL_ANSWER) {
		data[len] = '\0';
		on_answer(c, &head, data + sizeof(head));
		return;
	}
	if (!id_is_valid(head.id, "sb"))
		return;
	if ((head.op == WALL_DECISION || head.op == WALL_LEARNT) && len == sizeof(d)) {
		memcpy(&d, data, sizeof(d));
		d.head = head;
		d.name[sizeof(d.name) - 1] = d.address[sizeof(d.address) - 1] = '\0';
		d.why[sizeof(d.why) - 1] = '\0';
		c->ops.on_decision(&d, c->arg);
	} else if (head.op == WALL_BYTES && len == sizeof(b)) {
		memcpy(&b, data, sizeof(b));
		c->ops.on_bytes(head.id, b.in_bytes, b.out_bytes, c->arg);
	} else if (head.op == WALL_DIAL && len == sizeof(dial) && c->ops.on_dial) {
		memcpy(&dial, data, sizeof(dial));
		dial.head = head;
		dial.member[sizeof(dial.member) - 1] = '\0';
		if (id_is_valid(dial.member, "sb"))
			c->ops.on_dial(&dial, c->arg);
	}
}

static bool read_one(struct wall_client *c)
{
	union {
		struct wall_decision decision;
		struct wall_bytes bytes;
		char data[MESSAGE_MAX + 1];
	} m;
	int fds[FD_PASS_MAX];
	size_t n_fds = ARRAY_SIZE(fds);
	ssize_t n = fd_recv(c->fd, &m, MESSAGE_MAX, fds, &n_fds);

	if (n == -EAGAIN || n == -EINTR)
		return false;
	for (size_t i = 0; n >= 0 && i < n_fds; i++)
		(void)close(fds[i]); /* none is ever sent */
	if (n < (ssize_t)sizeof(struct wall_head) || m.bytes.head.magic != WALL_MAGIC) {
		log_warn("gateway.wall_lost", "error=%zd", n);
		detach(c);
		return false;
	}
	c->silent_since_us = 0; /* whatever it says: it lives */
	on_message(c, m.data, (size_t)n);
	return c->io != NULL;
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	(void)loop;
	(void)events;
	for (int i = 0; i < MESSAGES_A_TURN; i++)
		if (!read_one(arg))
			break;
}

struct wall_client *wall_client_new(struct loop *loop)
{
	struct wall_client *c = xnew0(struct wall_client);

	c->loop = loop;
	c->fd = -1;
	return c;
}

void wall_client_set_ops(struct wall_client *c, const struct wall_ops *ops, void *arg)
{
	c->ops = *ops;
	c->arg = arg;
}

void wall_client_free(struct wall_client *c)
{
	if (!c)
		return;
	for (struct call *call = c->calls, *next; call; call = next) {
		next = call->hh.next;
		call_free(call);
	}
	detach(c);
	free(c);
}

void wall_client_attach(struct wall_client *c, int fd)
{
	detach(c);
	c->fd = fd;
	if (fd_set_nonblock(fd, true) < 0 ||
	    loop_io_add(c->loop, fd, EPOLLIN, on_io, c, &c->io) < 0)
		detach(c);
	else
		c->silent_since_us = 0;
	if (c->io && c->ops.on_attached)
		c->ops.on_attached(c->arg);
}

bool wall_client_is_attached(const struct wall_client *c)
{
	return c->io != NULL;
}

static uint64_t send_call(struct wall_client *c, struct wall_head *head, const char *text,
                          const int *fds, size_t n_fds, wall_fn fn, void *arg)
{
	struct buf message = BUF_INIT(sizeof(*head) + WALL_TEXT_MAX);
	struct call *call = xnew0(struct call);
	ssize_t n;
	int r;

	*call = (struct call){.client = c, .tag = ++c->last_tag, .fn = fn, .arg = arg};
	call->timer = loop_timer_new(c->loop, on_timer, call);
	HASH_ADD(hh, c->calls, tag, sizeof(call->tag), call);
	head->magic = WALL_MAGIC;
	head->tag = call->tag;
	r = c->fd < 0 ? -EPIPE : buf_append(&message, head, sizeof(*head));
	if (r == 0)
		r = buf_append_str(&message, text);
	if (r == 0) {
		n = fd_send(c->fd, message.data, message.len, fds, n_fds);
		r = n < 0 ? (int)n : 0;
	}
	buf_done(&message);
	call->error = r;
	loop_timer_set_in(call->timer, r < 0 ? 0 : PATIENCE_US);
	return call->tag;
}

static struct wall_head head_for(const char *id, enum wall_op op)
{
	struct wall_head head = {.op = op};

	(void)snprintf(head.id, sizeof(head.id), "%s", id);
	return head;
}

uint64_t wall_client_open(struct wall_client *c, const char *id, const char *policy,
                          bool is_trusting, const int fds[WALL_SOCKETS], wall_fn fn, void *arg)
{
	struct wall_head head = head_for(id, WALL_OPEN);
	int sent[WALL_SOCKETS];
	size_t n = 0;

	head.is_trusting = is_trusting;
	for (size_t i = 0; i < WALL_SOCKETS; i++) {
		if (fds[i] < 0)
			continue;
		head.sockets |= (uint16_t)BIT(i);
		sent[n++] = fds[i];
	}
	return send_call(c, &head, policy, sent, n, fn, arg);
}

uint64_t wall_client_set_policy(struct wall_client *c, const char *id, const char *policy,
                                bool is_trusting, wall_fn fn, void *arg)
{
	struct wall_head head = head_for(id, WALL_POLICY);

	head.is_trusting = is_trusting;
	return send_call(c, &head, policy, NULL, 0, fn, arg);
}

uint64_t wall_client_close(struct wall_client *c, const char *id, wall_fn fn, void *arg)
{
	struct wall_head head = head_for(id, WALL_CLOSE);

	return send_call(c, &head, "", NULL, 0, fn, arg);
}

uint64_t wall_client_set_group(struct wall_client *c, const char *id, const char *members,
                               wall_fn fn, void *arg)
{
	struct wall_head head = head_for(id, WALL_GROUP);

	return send_call(c, &head, members, NULL, 0, fn, arg);
}

void wall_client_dialled(struct wall_client *c, uint64_t dial, int fd, int error, const char *why)
{
	struct wall_head head = {.op = WALL_DIALLED, .dial = dial, .error = (uint32_t)error};

	(void)send_call(c, &head, why, &fd, fd >= 0 ? 1 : 0, NULL, NULL);
}

void wall_client_ping(struct wall_client *c)
{
	struct wall_head head = {.op = WALL_PING};

	if (c->silent_since_us == 0)
		c->silent_since_us = loop_now_us(c->loop);
	(void)send_call(c, &head, "", NULL, 0, NULL, NULL);
}

uint64_t wall_client_silent_us(const struct wall_client *c)
{
	return c->silent_since_us ? loop_now_us(c->loop) - c->silent_since_us : 0;
}

void wall_client_cancel(struct wall_client *c, uint64_t tag)
{
	struct call *call = find(c, tag);

	if (call)
		call_free(call);
}
