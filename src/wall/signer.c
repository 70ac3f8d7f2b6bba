// SPDX-License-Identifier: Apache-2.0
/*
 * A signature takes the wall's one thread up to some milliseconds, so a sandbox has a rate of them;
 * beyond it the answer is a refusal. What is signed, and what is refused, is told as a decision.
 */
#include "wall/signer.h"

#include "net/policy/ssh_signer.h"
#include "proto/signer.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define PATIENCE_US    UINT64_C(300000000)
#define LENGTH_BYTES   4
#define OUT_MAX        ((size_t)128 * 1024)
#define SIGNS_A_SECOND 10
#define SIGNS_AT_ONCE  40

struct signer {
	struct door *door;
	int fd;
	struct loop_io *io;
	struct loop_timer *timer;
	struct buf in, out;
	struct ssh_signer state;
	bool is_over;
	loop_fn done;
	void *arg;
};

bool signer_is_dialled(const struct address *dialled, uint16_t port)
{
	static const uint8_t bytes[4] = SIGNER_ADDRESS;
	const struct address own = address_from_v4(bytes);

	return port == SIGNER_PORT && address_is_equal(dialled, &own);
}

static void finish(struct signer *s)
{
	if (s->is_over)
		return;
	s->is_over = true;
	s->done(s->door->all->loop, s->arg);
}

static void record(struct signer *s, const struct ssh_signer_report *report)
{
	const struct policy_rule *rule =
		report->rule == JUDGE_NO_RULE ? NULL : &s->door->policy->rules[report->rule];

	if (report->outcome == SIGNER_TOLD)
		return;
	door_record(s->door, &(struct door_record){
				     .verdict = report->outcome == SIGNER_SIGNED ? WALL_ALLOWED
	                                                                         : WALL_DENIED,
				     .rule = report->rule,
				     .name = rule ? &rule->match.domains[0].name : NULL,
				     .port = rule ? rule->match.ports[0].first : SIGNER_PORT,
				     .protocol = PROTOCOL_OTHER,
				     .why = report->why ? report->why : "a login by SSH was signed",
			     });
}

/* Of the first message that is here, or a part of it; 0: not known. */
static size_t message_len(const struct signer *s)
{
	const uint8_t *head = (const uint8_t *)s->in.data;

	if (s->in.len < LENGTH_BYTES)
		return 0;
	return (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
}

/* Whole, or one that will never be. */
static bool has_message(const struct signer *s)
{
	const size_t len = message_len(s);

	return s->in.len >= LENGTH_BYTES &&
	       (len > SSH_SIGNER_MESSAGE_MAX || s->in.len >= LENGTH_BYTES + len);
}

/* 1: a message was answered. */
static int answer_one(struct signer *s)
{
	const uint8_t *head = (const uint8_t *)s->in.data;
	const size_t len = message_len(s);
	struct ssh_signer_report report = {0};
	bool is_slowed;
	int r;

	if (!has_message(s) || s->out.len > 0)
		return 0;
	if (len == 0 || len > SSH_SIGNER_MESSAGE_MAX)
		return -EPROTO;
	is_slowed = ssh_signer_is_costly(head + LENGTH_BYTES, len) &&
	            !bucket_take(&s->door->sign_rate, loop_now_us(s->door->all->loop),
	                         SIGNS_A_SECOND, SIGNS_AT_ONCE);
	r = ssh_signer_answer(&s->state, s->door->policy, &s->door->all->site, head + LENGTH_BYTES,
	                      is_slowed ? 0 : len, &s->out, &report);
	buf_consume(&s->in, LENGTH_BYTES + len);
	if (is_slowed)
		report = (struct ssh_signer_report){SIGNER_REFUSED, JUDGE_NO_RULE,
		                                    "it asks for signatures too often"};
	record(s, &report);
	return r < 0 ? r : 1;
}

static int read_some(struct signer *s)
{
	size_t size = buf_room(&s->in);
	char *room;
	ssize_t n;

	if (size == 0 || buf_reserve(&s->in, size, &room) < 0)
		return -E2BIG;
	n = recv(s->fd, room, size, 0);
	if (n == 0)
		return -EPIPE;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	buf_commit(&s->in, (size_t)n);
	return 0;
}

static int write_some(struct signer *s)
{
	ssize_t n = send(s->fd, s->out.data, s->out.len, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	buf_consume(&s->out, (size_t)n);
	return 0;
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct signer *s = arg;
	int r = 0;

	(void)loop;
	if (s->out.len > 0)
		r = write_some(s);
	else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = read_some(s);
	if (r == 0)
		r = answer_one(s); /* one a turn: others wait, too */
	if (r > 0)
		r = write_some(s);
	if (r < 0) {
		finish(s);
		return;
	}
	loop_timer_set_in(s->timer, PATIENCE_US);
	/* A next message that is here already is looked at when the socket can be written to. */
	loop_io_set(s->io, s->out.len > 0 || has_message(s) ? EPOLLOUT : EPOLLIN);
}

static void on_patience_end(struct loop *loop, void *arg)
{
	(void)loop;
	finish(arg);
}

int signer_new(struct door *door, int fd, loop_fn done, void *arg, struct signer **ret)
{
	struct signer *s = xnew0(struct signer);
	int r;

	*s = (struct signer){.door = door, .fd = fd, .done = done, .arg = arg};
	buf_init(&s->in, LENGTH_BYTES + SSH_SIGNER_MESSAGE_MAX);
	buf_init(&s->out, OUT_MAX);
	ssh_signer_init(&s->state);
	s->timer = loop_timer_new(door->all->loop, on_patience_end, s);
	loop_timer_set_in(s->timer, PATIENCE_US);
	r = loop_io_add(door->all->loop, fd, EPOLLIN, on_io, s, &s->io);
	if (r < 0) {
		signer_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static void on_free(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void signer_free(struct signer *s)
{
	if (!s)
		return;
	s->is_over = true;
	loop_io_removep(&s->io);
	loop_timer_free(s->timer);
	(void)close(s->fd);
	buf_done(&s->in);
	buf_done(&s->out);
	ssh_signer_done(&s->state);
	loop_defer(s->door->all->loop, on_free, s);
}
