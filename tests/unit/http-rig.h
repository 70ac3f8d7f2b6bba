// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A server and its clients in one loop: the tests say what a client sends and what must come back.
 * Waiting is for events, with a deadline that only a failure reaches.
 */
#include "base/buf.h"
#include "http/server.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define RIG_WAIT_US 10000000

struct rig {
	struct loop *loop;
	struct http_server *server;
	struct sockaddr_un address; /* in the abstract namespace: nothing to clean up */
	socklen_t address_len;
	struct loop_timer *deadline;
	bool is_late;
};

struct peer {
	struct rig *rig;
	int fd;
	struct loop_io *io;
	struct buf got;
	bool is_closed; /* by the server */
	const char *wanted;
	bool wants_end;
};

static inline void rig_on_late(struct loop *loop, void *arg)
{
	((struct rig *)arg)->is_late = true;
	loop_stop(loop);
}

static inline void rig_open(struct rig *rig, const struct http_app *app)
{
	struct err err = {0};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*rig = (struct rig){.address = {.sun_family = AF_UNIX}};
	rig->address_len = sizeof(rig->address);
	CHECK_INT(bind(fd, (struct sockaddr *)&rig->address, sizeof(sa_family_t)), 0);
	CHECK_INT(getsockname(fd, (struct sockaddr *)&rig->address, &rig->address_len), 0);
	CHECK_INT(listen(fd, 64), 0);
	CHECK_INT(loop_new(&rig->loop, &err), 0);
	rig->deadline = loop_timer_new(rig->loop, rig_on_late, rig);
	CHECK_INT(http_server_new(rig->loop, app, &rig->server, &err), 0);
	CHECK_INT(http_server_listen(rig->server, fd, NULL, &err), 0);
}

static inline void rig_close(struct rig *rig)
{
	http_server_free(rig->server);
	loop_timer_free(rig->deadline);
	loop_free(rig->loop);
}

/* Runs the loop until somebody stops it. */
static inline void rig_run(struct rig *rig)
{
	rig->is_late = false;
	loop_timer_set_in(rig->deadline, RIG_WAIT_US);
	CHECK_INT(loop_run(rig->loop), 0);
	loop_timer_set(rig->deadline, UINT64_MAX);
}

static inline void peer_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct peer *p = arg;
	char data[16384];
	ssize_t n = recv(p->fd, data, sizeof(data), 0);
	size_t from = p->got.len;

	(void)events;
	if (n > 0) {
		CHECK_INT(buf_append(&p->got, data, (size_t)n), 0);
	} else if (n == 0 || errno != EAGAIN) {
		p->is_closed = true;
		loop_io_removep(&p->io);
	}
	if (p->wanted) /* looked for in what is new, for much may come */
		from -= MIN(from, strlen(p->wanted));
	if ((p->wanted && p->got.data &&
	     memmem(p->got.data + from, p->got.len - from, p->wanted, strlen(p->wanted))) ||
	    (p->wants_end && p->is_closed))
		loop_stop(loop);
}

static inline void peer_make(struct peer *p, struct rig *rig)
{
	*p = (struct peer){.rig = rig};
	buf_init(&p->got, 64 * 1024 * 1024);
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(p->fd >= 0);
}

static inline void peer_connect(struct peer *p)
{
	struct rig *rig = p->rig;

	CHECK_INT(connect(p->fd, (struct sockaddr *)&rig->address, rig->address_len), 0);
	CHECK_INT(fcntl(p->fd, F_SETFL, O_NONBLOCK), 0);
	CHECK_INT(loop_io_add(rig->loop, p->fd, EPOLLIN, peer_on_io, p, &p->io), 0);
}

static inline void peer_open(struct peer *p, struct rig *rig)
{
	peer_make(p, rig);
	peer_connect(p);
}

static inline void peer_close(struct peer *p)
{
	loop_io_removep(&p->io);
	if (p->fd >= 0)
		(void)close(p->fd);
	p->fd = -1;
	buf_done(&p->got);
}

static inline void peer_send(struct peer *p, const void *data, size_t len)
{
	CHECK_INT(send(p->fd, data, len, MSG_NOSIGNAL), len);
}

static inline void peer_say(struct peer *p, const char *text)
{
	peer_send(p, text, strlen(text));
}

/* Runs until the text has come. */
static inline void peer_await(struct peer *p, const char *text)
{
	p->wanted = text;
	if (!p->got.data || !memmem(p->got.data, p->got.len, text, strlen(text)))
		rig_run(p->rig);
	p->wanted = NULL;
	if (p->rig->is_late || !p->got.data || !memmem(p->got.data, p->got.len, text, strlen(text)))
		print_error("came: '%.2000s'\n", buf_str(&p->got));
	CHECK_STR(p->got.data && memmem(p->got.data, p->got.len, text, strlen(text)) ? text : "",
	          text);
}

/* Runs until the server has closed. */
static inline void peer_await_end(struct peer *p)
{
	p->wants_end = true;
	if (!p->is_closed)
		rig_run(p->rig);
	p->wants_end = false;
	CHECK(p->is_closed);
}

static inline bool peer_has(const struct peer *p, const char *text)
{
	return p->got.data && memmem(p->got.data, p->got.len, text, strlen(text));
}

static inline int peer_status(const struct peer *p)
{
	int status = 0;

	(void)sscanf(buf_str(&p->got), "HTTP/1.1 %d", &status);
	return status;
}

static inline void peer_forget(struct peer *p)
{
	buf_consume(&p->got, p->got.len);
}
