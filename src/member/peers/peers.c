// SPDX-License-Identifier: Apache-2.0
#include "member/peers/peers.h"

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/units.h"
#include "member/peers/peer_stream.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define STREAMS_MAX    4096
#define OF_A_PEER_MAX  1024
#define HANDSHAKES_MAX 256 /* of those who come; then the oldest gives way */
#define CONNECT_US     (3 * SECOND_US)
#define HANDSHAKE_US   (5 * SECOND_US)
#define LISTEN_US      (2 * SECOND_US)
#define ACCEPTS_MAX    16              /* in a turn */
#define DOWN_US        (1 * SECOND_US) /* a peer that did not answer is not asked so long */
#define DOWN_MAX       16

struct one { /* stream */
	struct list link;
	struct peers *peers;
	struct peer_stream *stream; /* NULL: its peer's name is being resolved */
	uint32_t node;              /* 0: not known yet */
	uint32_t seq;               /* of an open one that is not answered; 0 */
	bool is_incoming;
	uint16_t port;
};

struct down {
	uint32_t node;
	uint64_t until_us;
	char why[120];
};

struct peers {
	struct peers_config config;
	int fd; /* listening; -1 */
	struct loop_io *io;
	struct loop_timer *listen_timer;
	struct list all;
	size_t n_all, n_handshakes;
	struct down down[DOWN_MAX];
	unsigned next_down;
	char why[120]; /* it does not listen */
	uint64_t n_opened, n_arrived, n_refused;
};

static void drop(struct one *o)
{
	list_remove(&o->link);
	o->peers->n_all--;
	if (o->is_incoming && o->node == 0)
		o->peers->n_handshakes--;
	free(o);
}

static struct one *add(struct peers *p, bool is_incoming)
{
	struct one *o = xnew0(struct one);

	o->peers = p;
	o->is_incoming = is_incoming;
	list_append(&p->all, &o->link);
	p->n_all++;
	if (is_incoming)
		p->n_handshakes++;
	return o;
}

static size_t count_of(const struct peers *p, uint32_t node)
{
	size_t n = 0;

	list_for_each (&p->all, struct one, o, link)
		n += o->node == node;
	return n;
}

static void answer(struct peers *p, uint32_t seq, int error, const char *why, int fd)
{
	p->config.ops->opened(seq, error, why, fd, p->config.arg);
}

/* Nobody waits for a peer's timeout again and again. */
static void note_down(struct peers *p, uint32_t node, const char *why)
{
	struct down *d = &p->down[p->next_down++ % DOWN_MAX];

	*d = (struct down){.node = node, .until_us = loop_now_us(p->config.loop) + DOWN_US};
	(void)snprintf(d->why, sizeof(d->why), "%s", why);
}

static const struct down *find_down(const struct peers *p, uint32_t node)
{
	for (size_t i = 0; i < DOWN_MAX; i++)
		if (p->down[i].node == node && p->down[i].until_us > loop_now_us(p->config.loop))
			return &p->down[i];
	return NULL;
}

static void fail_open(struct one *o, const char *why)
{
	uint32_t seq = o->seq;

	o->seq = 0;
	if (seq == 0)
		return;
	log_debug("cluster.peer_failed", "node=%u why='%s'", o->node, why);
	note_down(o->peers, o->node, why);
	answer(o->peers, seq, -EHOSTUNREACH, why, -1);
}

/* The node of the certificate; 0: it is none of the cluster's. */
static uint32_t who_is(struct one *o)
{
	const struct peers *p = o->peers;
	const struct cluster_node_row *row;
	char name[sizeof(row->name)];

	if (peer_tls_name(peer_stream_transport(o->stream), p->config.cluster_id, name,
	                  sizeof(name)) < 0)
		return 0;
	row = directory_named(p->config.directory, name);
	return row && row->node != p->config.node ? row->node : 0;
}

static void admit_incoming(struct one *o, uint32_t node)
{
	struct peers *p = o->peers;
	bool is_too_many = node == 0 || count_of(p, node) >= OF_A_PEER_MAX;
	auto_fd int fd = -1;

	if (is_too_many) {
		p->n_refused++;
		log_warn("cluster.stream_refused", "node=%u why='%s'", node,
		         node ? "it has too many streams" : "no node of this cluster");
		peer_stream_cut(o->stream, "");
		return;
	}
	o->node = node;
	p->n_handshakes--;
	fd = peer_stream_take(o->stream);
	if (fd < 0 || p->config.ops->arrived(node, take_fd(&fd), p->config.arg) < 0)
		peer_stream_cut(o->stream, "");
	else
		p->n_arrived++;
}

static void on_ready(struct peer_stream *s, void *arg)
{
	struct one *o = arg;
	uint32_t node = who_is(o), seq = o->seq;
	auto_fd int fd = -1;

	if (o->is_incoming) {
		admit_incoming(o, node);
		return;
	}
	if (node != o->node) {
		peer_stream_cut(s, "another node answers at its address");
		return;
	}
	fd = peer_stream_take(s);
	if (fd < 0) {
		peer_stream_cut(s, strerror(-fd));
		return;
	}
	o->seq = 0;
	o->peers->n_opened++;
	answer(o->peers, seq, 0, "", take_fd(&fd));
}

static void on_gone(struct peer_stream *s, const char *why, void *arg)
{
	struct one *o = arg;

	(void)s;
	if (o->is_incoming && o->node == 0 && why[0]) {
		o->peers->n_refused++;
		log_info("cluster.stranger", "why='%s'", why);
	}
	fail_open(o, why);
	drop(o);
}

static const struct peer_stream_ops stream_ops = {.ready = on_ready, .gone = on_gone};

static void connect_to(struct one *o, const char *address)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to = {0};
	socklen_t len = sizeof(to.v4);
	int fd;

	if (inet_pton(AF_INET, address, &to.v4.sin_addr) == 1) {
		to.v4.sin_family = AF_INET;
		to.v4.sin_port = htons(o->port);
	} else if (inet_pton(AF_INET6, address, &to.v6.sin6_addr) == 1) {
		to.v6.sin6_family = AF_INET6;
		to.v6.sin6_port = htons(o->port);
		len = sizeof(to.v6);
	}
	fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, &to.any, len) < 0 && errno != EINPROGRESS)
		close_fd(&fd);
	if (fd >= 0)
		o->stream = peer_stream_new(o->peers->config.loop, o->peers->config.tls, fd, false,
		                            CONNECT_US, &stream_ops, o);
	if (!o->stream) {
		fail_open(o, strerror(errno));
		drop(o);
	}
}

static void on_resolved(const struct resolved *result, void *arg)
{
	struct one *o = arg;

	if (result->n > 0) {
		connect_to(o, result->addresses[0]);
		return;
	}
	fail_open(o, result->why);
	drop(o);
}

/* HOST:PORT of a row that was checked. */
static uint16_t split(const char *address, char host[256])
{
	const char *colon = strrchr(address, ':');
	uint64_t port = 0;

	(void)snprintf(host, 256, "%.*s", colon ? (int)(colon - address) : 0, address);
	return colon && parse_u64(colon + 1, UINT16_MAX, &port) == 0 ? (uint16_t)port : 0;
}

void peers_open(struct peers *p, uint32_t seq, uint32_t node)
{
	const struct cluster_node_row *row = directory_find(p->config.directory, node);
	const struct down *down = find_down(p, node);
	struct in_addr v4;
	char host[256];
	struct one *o;

	if (!row || node == p->config.node) {
		answer(p, seq, -EHOSTUNREACH, "there is no such node in the cluster", -1);
		return;
	}
	if (down) {
		answer(p, seq, -EHOSTUNREACH, down->why, -1);
		return;
	}
	if (p->n_all >= STREAMS_MAX || count_of(p, node) >= OF_A_PEER_MAX) {
		answer(p, seq, -EAGAIN, "there are too many streams between the nodes", -1);
		return;
	}
	o = add(p, false);
	o->seq = seq;
	o->node = node;
	o->port = split(row->address, host);
	if (inet_pton(AF_INET, host, &v4) == 1) {
		connect_to(o, host);
	} else if (name_resolver_ask(p->config.resolver, host, on_resolved, o) < 0) {
		fail_open(o, "names are not resolved any more");
		drop(o);
	}
}

/* Who has not shown a certificate gives way to who comes. */
static void make_room(struct peers *p)
{
	list_for_each (&p->all, struct one, o, link) {
		if (!o->is_incoming || o->node != 0)
			continue;
		peer_stream_cut(o->stream, "");
		return;
	}
}

static void on_accept(struct loop *loop, uint32_t events, void *arg)
{
	struct peers *p = arg;

	(void)events;
	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct one *o;

		if (fd < 0)
			return;
		if (p->n_all >= STREAMS_MAX) {
			(void)close(fd);
			p->n_refused++;
			continue;
		}
		if (p->n_handshakes >= HANDSHAKES_MAX)
			make_room(p);
		o = add(p, true);
		o->stream = peer_stream_new(loop, p->config.tls, fd, true, HANDSHAKE_US,
		                            &stream_ops, o);
		if (!o->stream)
			drop(o);
	}
}

/* At the node's own address where it is one of this machine, else at all. */
static int open_socket(const struct peers *p)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	static const int on = 1;
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char host[256];
	int r;

	v4.sin_port = htons(split(p->config.address, host));
	if (inet_pton(AF_INET, host, &v4.sin_addr) != 1)
		v4.sin_addr.s_addr = htonl(INADDR_ANY);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	r = bind(fd, (const struct sockaddr *)&v4, sizeof(v4));
	if (r < 0 && errno == EADDRNOTAVAIL) {
		v4.sin_addr.s_addr = htonl(INADDR_ANY);
		r = bind(fd, (const struct sockaddr *)&v4, sizeof(v4));
	}
	if (r < 0 || listen(fd, SOMAXCONN) < 0)
		return -errno;
	return take_fd(&fd);
}

static void on_listen(struct loop *loop, void *arg)
{
	struct peers *p = arg;
	int fd = open_socket(p);
	int r = fd < 0 ? fd : loop_io_add(loop, fd, EPOLLIN, on_accept, p, &p->io);

	if (r == 0) {
		p->fd = fd;
		p->why[0] = '\0';
		log_info("cluster.listening", "address=%s", p->config.address);
		return;
	}
	close_fd(&fd);
	if (strcmp(p->why, strerror(-r)) != 0)
		log_warn("cluster.not_listening", "address=%s error='%s'", p->config.address,
		         strerror(-r));
	(void)snprintf(p->why, sizeof(p->why), "%s", strerror(-r));
	loop_timer_set_in(p->listen_timer, LISTEN_US);
}

struct peers *peers_new(const struct peers_config *config)
{
	struct peers *p = xnew0(struct peers);

	*p = (struct peers){.config = *config, .fd = -1};
	list_init(&p->all);
	p->listen_timer = loop_timer_new(config->loop, on_listen, p);
	loop_timer_set_in(p->listen_timer, 0);
	return p;
}

void peers_show(struct peers *p, struct peer_tls *tls)
{
	p->config.tls = tls;
}

void peers_look(struct peers *p)
{
	list_for_each (&p->all, struct one, o, link)
		if (o->node != 0 && o->stream && peer_stream_is_ready(o->stream) &&
		    !directory_find(p->config.directory, o->node)) {
			log_warn("cluster.stream_cut", "node=%u why='the node was removed'",
			         o->node);
			peer_stream_cut(o->stream, "");
		}
}

json_t *peers_status(const struct peers *p)
{
	return json_pack("{sb sI sI sI sI ss*}", "listening", p->fd >= 0, "open",
	                 (json_int_t)(p->n_all - p->n_handshakes), "opened",
	                 (json_int_t)p->n_opened, "arrived", (json_int_t)p->n_arrived, "refused",
	                 (json_int_t)p->n_refused, "error", p->why[0] ? p->why : NULL);
}
