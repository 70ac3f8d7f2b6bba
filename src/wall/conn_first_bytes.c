// SPDX-License-Identifier: Apache-2.0
/*
 * A connection's first bytes, which tell its protocol and perhaps its name.
 *
 * In some protocols the server speaks first, so the guest is silent: when it has sent nothing for a
 * while, the connection is judged as one without a name. If that would deny it, the guest gets some
 * more time, since it may only be slow (emulated, or short of CPU).
 */
#include "wall/conn_private.h"
#include "wall/stub.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define PEEK_US        UINT64_C(5000000)
#define PEEK_OTHER_US  UINT64_C(1000000) /* on ports where the server may speak first */
#define PEEK_MORE_US   UINT64_C(10000000)
#define PEEK_DENIED_US UINT64_C(1000000) /* to say in which protocol it wants to be told */
#define METHOD_MAX     20

/* -1: no, 0: more is needed, 1: a word of capitals and a blank. */
static int looks_like_http(const struct buf *b)
{
	for (size_t i = 0; i < b->len; i++) {
		if (b->data[i] == ' ')
			return i > 0 ? 1 : -1;
		if (b->data[i] < 'A' || b->data[i] > 'Z' || i == METHOD_MAX)
			return -1;
	}
	return 0;
}

static void know(struct conn *c, enum policy_protocol protocol)
{
	c->protocol = protocol;
	c->name_state = NAME_NONE;
	if (protocol == PROTOCOL_TLS && c->hello.has_name) {
		c->name_state = NAME_KNOWN;
		c->name = c->hello.name;
	}
	if (protocol == PROTOCOL_HTTP)
		conn_proxy(c, /* is_tls= */ false);
	else
		conn_judge(c);
}

static void on_first_bytes(struct conn *c, const char *data, size_t len)
{
	const char *why = "";
	int r = clienthello_feed(&c->reader, data, len, &why);

	if (r < 0) {
		conn_reset(c, WALL_DENIED, "its ClientHello is broken");
		return;
	}
	if (r == CLIENTHELLO_DONE) {
		know(c, PROTOCOL_TLS);
		return;
	}
	if (r == CLIENTHELLO_MORE)
		return;
	r = looks_like_http(&c->first);
	if (r != 0)
		know(c, r > 0 ? PROTOCOL_HTTP : PROTOCOL_OTHER);
}

static void on_peek(struct loop *loop, uint32_t events, void *arg)
{
	struct conn *c = arg;
	size_t size = MIN(buf_room(&c->first), (size_t)4096), before = c->first.len;
	char *room;
	ssize_t n;

	(void)loop;
	(void)events;
	if (size == 0 || buf_reserve(&c->first, size, &room) < 0) {
		conn_reset(c, WALL_DENIED, "its first bytes never end");
		return;
	}
	n = recv(c->fd, room, size, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_reset(c, WALL_DENIED, "it said nothing to judge it by");
		return;
	}
	buf_commit(&c->first, (size_t)n);
	if (before == 0)
		loop_timer_set_in(c->timer, PEEK_US); /* for the rest of them */
	on_first_bytes(c, c->first.data + before, (size_t)n);
}

static bool may_be_nameless(const struct conn *c)
{
	struct judge_facts facts = conn_facts(c);
	struct judge_decision d;

	facts.name_state = NAME_NONE;
	facts.protocol = PROTOCOL_OTHER;
	d = judge(c->door->policy, &c->door->all->site, &facts);
	return d.outcome == JUDGE_ALLOW && d.dial != DIAL_NOTHING;
}

void conn_on_silence(struct loop *loop, void *arg)
{
	struct conn *c = arg;

	(void)loop;
	if (c->dial_tag) {
		conn_reset(c, WALL_FAILED, "the member does not answer");
	} else if (c->refusal) {
		conn_reset(c, WALL_DENIED, c->refusal);
	} else if (c->first.len > 0) {
		conn_reset(c, WALL_DENIED, "its first bytes took too long");
	} else if (!c->is_slow && !may_be_nameless(c) && !stub_has_denied(&c->dialled)) {
		c->is_slow = true;
		loop_timer_set_in(c->timer, PEEK_MORE_US);
	} else {
		know(c, PROTOCOL_OTHER);
	}
}

bool conn_guest_speaks_first(const struct conn *c)
{
	const struct policy *p = c->door->policy;

	if (c->port == 443 || c->port == 80)
		return true;
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_match *m = &p->rules[i].match;

		if (m->protocol != PROTOCOL_TLS && m->protocol != PROTOCOL_HTTP)
			continue;
		for (size_t j = 0; j < m->n_ports; j++)
			if (c->port >= m->ports[j].first && c->port <= m->ports[j].last)
				return true;
	}
	return false;
}

void conn_peek(struct conn *c)
{
	clienthello_init(&c->reader, &c->hello);
	c->is_tls_read = true;
	loop_timer_set_in(c->timer, c->refusal                   ? PEEK_DENIED_US
	                            : conn_guest_speaks_first(c) ? PEEK_US
	                                                         : PEEK_OTHER_US);
	if (loop_io_add(c->door->all->loop, c->fd, EPOLLIN, on_peek, c, &c->io) < 0)
		conn_reset(c, WALL_FAILED, "no room");
}
