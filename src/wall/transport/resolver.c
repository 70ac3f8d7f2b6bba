// SPDX-License-Identifier: Apache-2.0
/*
 * An entry is for a name and a type: first it holds the pending question (struct query), then its
 * answer until that expires. Askers wait at the entry. Known answers are delivered at the end of
 * the turn, so that no callback runs inside resolver_ask().
 *
 * What a server sends is believed only if it came from its address to the socket of this question
 * (which is connected, from a port that the kernel picked), with its random id, and answers exactly
 * this question (net/packet/dns.h); anything else is ignored. If a server fails or is silent, the
 * next one is asked.
 */
#include "wall/transport/resolver.h"

#include "base/fd.h"
#include "base/id.h"
#include "base/list.h"
#include "base/units.h"
#include "net/match/host.h"
#include "wall/transport/sockaddr.h"

#include <assert.h>
#include <string.h>
#include <sys/epoll.h>
#include <uthash.h>

#define PATIENCE_US  UINT64_C(2000000)
#define TRIES_MAX    4
#define ENTRIES_MAX  2048 /* what is known */
#define QUERIES_MAX  256  /* under way */
#define WAITERS_MAX  1024 /* of one entry */
#define DNS_PORT     53
#define LENGTH_BYTES 2 /* before each message by TCP */

struct key { /* compared as bytes, so all of it is set */
	char name[HOSTNAME_SIZE];
	uint16_t type;
};

/* One try at one server. */
struct query {
	int fd;
	struct loop_io *io;
	uint16_t id;
	bool is_tcp;
	struct buf in, out; /* by TCP */
	unsigned tries;
	struct loop_timer *timer;
};

struct entry {
	struct resolver *resolver;
	struct key key;
	struct hostname name;
	struct query *query; /* NULL: it is known */
	struct dns_response response;
	bool has_failed;
	uint64_t expires_us;
	struct list waiters; /* struct resolver_ask */
	size_t n_waiters;
	struct list link; /* of those known, the oldest first */
	UT_hash_handle hh;
};

struct resolver_ask {
	struct resolver *resolver;
	struct entry *entry; /* while it waits there */
	struct dns_response response;
	bool has_failed;
	resolver_fn fn;
	void *arg;
	struct list link;
};

struct resolver {
	struct resolver_config config;
	struct entry *entries;
	struct list known; /* entries that can be dropped */
	size_t n_known, n_queries;
	struct list due; /* asks whose answer is there */
	struct loop_timer *due_timer;
};

static void query_try(struct entry *e);

static void query_free(struct query *q)
{
	loop_io_removep(&q->io);
	if (q->fd >= 0)
		(void)close(q->fd);
	loop_timer_free(q->timer);
	buf_done(&q->in);
	buf_done(&q->out);
	free(q);
}

static void entry_free(struct entry *e)
{
	HASH_DEL(e->resolver->entries, e);
	if (e->query) {
		e->resolver->n_queries--;
		query_free(e->query);
	} else {
		e->resolver->n_known--;
		list_remove(&e->link);
	}
	free(e);
}

static void ask_give(struct resolver_ask *ask, const struct entry *e)
{
	ask->response = e->response;
	ask->has_failed = e->has_failed;
	ask->entry = NULL;
	list_append(&ask->resolver->due, &ask->link);
	loop_timer_set_in(ask->resolver->due_timer, 0);
}

static void on_due(struct loop *loop, void *arg)
{
	struct resolver *r = arg;
	struct resolver_ask *ask;

	(void)loop;
	while ((ask = list_first(&r->due, struct resolver_ask, link))) {
		struct dns_response response = ask->response;
		bool has_failed = ask->has_failed;
		resolver_fn fn = ask->fn;
		void *fn_arg = ask->arg;

		list_remove(&ask->link);
		free(ask);
		fn(has_failed ? NULL : &response, fn_arg);
	}
}

/* response NULL: no server answered. That is not kept, so the next asker asks again. */
static void entry_settle(struct entry *e, const struct dns_response *response)
{
	struct resolver *r = e->resolver;
	uint32_t ttl_s = response ? MIN(response->ttl_s, RESOLVER_TTL_MAX_S) : 0;

	query_free(take_ptr(e->query));
	r->n_queries--;
	e->has_failed = !response;
	if (response)
		e->response = *response;
	e->expires_us = loop_now_us(r->config.loop) + ttl_s * SECOND_US;
	list_for_each (&e->waiters, struct resolver_ask, ask, link) {
		list_remove(&ask->link);
		ask_give(ask, e);
	}
	e->n_waiters = 0;
	list_append(&r->known, &e->link);
	r->n_known++;
	if (ttl_s == 0)
		entry_free(e);
	else if (r->n_known > ENTRIES_MAX)
		entry_free(list_first(&r->known, struct entry, link));
}

static void on_message(struct entry *e, const void *data, size_t len)
{
	struct query *q = e->query;
	struct dns_response response;

	if (dns_response_parse(data, len, q->id, &e->name, (enum dns_type)e->key.type, &response,
	                       NULL) < 0)
		return;
	if (response.is_truncated && !q->is_tcp) {
		q->is_tcp = true;
		q->tries--;
		query_try(e);
	} else if (response.rcode == DNS_NOERROR || response.rcode == DNS_NXDOMAIN) {
		entry_settle(e, &response);
	} else {
		query_try(e);
	}
}

static void on_udp(struct entry *e)
{
	char data[DNS_UDP_MAX];
	ssize_t n = recv(e->query->fd, data, sizeof(data), MSG_TRUNC);

	if (n > (ssize_t)sizeof(data))
		return; /* longer than we said we take */
	if (n >= 0)
		on_message(e, data, (size_t)n);
	else if (errno != EAGAIN && errno != EINTR)
		query_try(e); /* nobody listens there */
}

static int tcp_write(struct query *q)
{
	ssize_t n = send(q->fd, q->out.data, q->out.len, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	buf_consume(&q->out, (size_t)n);
	if (q->out.len == 0)
		loop_io_set(q->io, EPOLLIN);
	return 0;
}

/* 1: the message is whole. */
static int tcp_read(struct query *q, size_t *ret_len)
{
	char *room;
	ssize_t n;

	if (buf_reserve(&q->in, 4096, &room) < 0)
		return -E2BIG;
	n = recv(q->fd, room, 4096, 0);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -EPIPE;
	buf_commit(&q->in, (size_t)n);
	if (q->in.len < LENGTH_BYTES)
		return 0;
	*ret_len = (size_t)((uint8_t)q->in.data[0] << 8 | (uint8_t)q->in.data[1]);
	return q->in.len >= *ret_len + LENGTH_BYTES;
}

static void on_tcp(struct entry *e, uint32_t events)
{
	struct query *q = e->query;
	size_t len = 0;
	int r = q->out.len > 0 ? tcp_write(q) : 0;

	if (r == 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		r = tcp_read(q, &len);
	if (r < 0)
		query_try(e);
	else if (r > 0)
		on_message(e, q->in.data + LENGTH_BYTES, len);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct entry *e = arg;

	(void)loop;
	if (e->query->is_tcp)
		on_tcp(e, events);
	else
		on_udp(e);
}

static void on_patience_end(struct loop *loop, void *arg)
{
	(void)loop;
	query_try(arg);
}

static int query_send(struct query *q, const struct entry *e)
{
	struct buf message = BUF_INIT(DNS_UDP_MAX);
	int r;

	random_bytes(&q->id, sizeof(q->id));
	buf_done(&q->in);
	buf_done(&q->out);
	r = dns_query_write(&message, q->id, &e->name, (enum dns_type)e->key.type);
	if (r == 0 && q->is_tcp) {
		const char length[] = {(char)(message.len >> 8), (char)message.len};

		r = buf_append(&q->out, length, sizeof(length));
		if (r == 0)
			r = buf_append(&q->out, message.data, message.len);
	} else if (r == 0 && send(q->fd, message.data, message.len, MSG_NOSIGNAL) < 0) {
		r = -errno;
	}
	buf_done(&message);
	return r;
}

static int query_open(struct query *q, struct entry *e)
{
	struct resolver *r = e->resolver;
	const struct sockaddr_storage *server =
		&r->config.servers[(q->tries - 1) % r->config.n_servers];
	int fd = socket(server->ss_family,
	                (q->is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	q->fd = fd;
	if (connect(fd, (const struct sockaddr *)server, sockaddr_len(server)) < 0 &&
	    errno != EINPROGRESS)
		return -errno;
	return loop_io_add(r->config.loop, fd, EPOLLIN | (q->is_tcp ? EPOLLOUT : 0), on_io, e,
	                   &q->io);
}

/* The next try, or the end of them. */
static void query_try(struct entry *e)
{
	struct query *q = e->query;
	int r = -EAGAIN;

	while (r < 0 && q->tries < TRIES_MAX && e->resolver->config.n_servers > 0) {
		loop_io_removep(&q->io);
		if (q->fd >= 0)
			(void)close(take_fd(&q->fd));
		q->tries++;
		r = query_open(q, e);
		if (r == 0)
			r = query_send(q, e);
	}
	if (r < 0)
		entry_settle(e, NULL);
	else
		loop_timer_set_in(q->timer, e->resolver->config.patience_us);
}

static struct entry *entry_find(struct resolver *r, const struct key *key)
{
	struct entry *e = NULL;

	HASH_FIND(hh, r->entries, key, sizeof(*key), e);
	if (e && !e->query && e->expires_us <= loop_now_us(r->config.loop)) {
		entry_free(e);
		e = NULL;
	}
	return e;
}

static struct entry *entry_new(struct resolver *r, const struct key *key,
                               const struct hostname *name)
{
	struct entry *e = xnew0(struct entry);

	*e = (struct entry){.resolver = r, .key = *key, .name = *name};
	list_init(&e->waiters);
	list_init(&e->link);
	e->query = xnew0(struct query);
	e->query->fd = -1;
	buf_init(&e->query->in, DNS_TCP_MAX + LENGTH_BYTES);
	buf_init(&e->query->out, DNS_UDP_MAX + LENGTH_BYTES);
	e->query->timer = loop_timer_new(r->config.loop, on_patience_end, e);
	HASH_ADD(hh, r->entries, key, sizeof(e->key), e);
	r->n_queries++;
	return e;
}

struct resolver_ask *resolver_ask(struct resolver *r, const struct hostname *name,
                                  enum dns_type type, resolver_fn fn, void *arg)
{
	struct resolver_ask *ask = xnew0(struct resolver_ask);
	const struct entry nobody = {.has_failed = true};
	struct entry *e;
	struct key key;

	memset(&key, 0, sizeof(key));
	memcpy(key.name, name->text, name->len);
	key.type = (uint16_t)type;
	*ask = (struct resolver_ask){.resolver = r, .fn = fn, .arg = arg};
	list_init(&ask->link);
	e = entry_find(r, &key);
	if (e && !e->query) {
		ask_give(ask, e);
		return ask;
	}
	if (e ? e->n_waiters >= WAITERS_MAX : r->n_queries >= QUERIES_MAX) {
		ask_give(ask, &nobody);
		return ask;
	}
	if (e) {
		list_append(&e->waiters, &ask->link);
	} else {
		e = entry_new(r, &key, name);
		list_append(&e->waiters, &ask->link);
		loop_timer_set_in(e->query->timer, 0); /* its first try */
	}
	ask->entry = e;
	e->n_waiters++;
	return ask;
}

void resolver_cancel(struct resolver_ask *ask)
{
	if (!ask)
		return;
	if (ask->entry)
		ask->entry->n_waiters--;
	list_remove(&ask->link);
	free(ask);
}

struct resolver *resolver_new(const struct resolver_config *config)
{
	struct resolver *r = xnew0(struct resolver);

	assert(config->n_servers <= RESOLVER_SERVERS_MAX);
	r->config = *config;
	if (r->config.patience_us == 0)
		r->config.patience_us = PATIENCE_US;
	list_init(&r->known);
	list_init(&r->due);
	r->due_timer = loop_timer_new(config->loop, on_due, r);
	return r;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	for (struct entry *e = r->entries, *next; e; e = next) {
		next = e->hh.next;
		list_for_each (&e->waiters, struct resolver_ask, ask, link) {
			resolver_cancel(ask);
		}
		entry_free(e);
	}
	list_for_each (&r->due, struct resolver_ask, ask, link)
		resolver_cancel(ask);
	loop_timer_free(r->due_timer);
	free(r);
}

int resolver_parse_server(const char *text, struct sockaddr_storage *ret, const char **why)
{
	struct address a;
	struct host host;
	uint16_t port = 0;
	int r = 0;

	if (address_parse(text, strlen(text), &a, NULL) < 0) { /* an IPv6 one without brackets */
		r = authority_parse(text, strlen(text), &host, &port, why);
		if (r == 0 && host.is_name)
			r = refuse_as(why, "is a name: a resolver is given by its address");
		a = host.address;
	}
	if (r == 0)
		(void)sockaddr_from(ret, &a, port ? port : DNS_PORT);
	return r;
}
