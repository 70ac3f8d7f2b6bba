// SPDX-License-Identifier: Apache-2.0
/*
 * A port inside as a line of bytes: a WebSocket whose binary messages are what is sent and
 * received, and whose text message {"eof": true}, either way, says that nothing more follows that
 * way. Needs no open port: whoever has a key that may write in the sandbox can also talk to what
 * runs there.
 *
 * Each side is read only while the other takes what came. So when the client leaves, what it sent
 * before has been passed on.
 */
#include "api/frame/wake.h"
#include "api/handlers.h"

#include "base/fd.h"
#include "base/parse.h"
#include "http/websocket.h"
#include "sandbox/network/port.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define READ_SIZE ((size_t)64 * 1024)

enum { CLOSE_NORMAL = 1000, CLOSE_POLICY = 1008, CLOSE_TRY_LATER = 1013 };

struct port_tcp {
	struct http_ws *ws;
	struct loop *loop;
	struct port_connection *line;
	int fd;
	struct loop_io *io;
	struct buf out; /* for the server inside */
	bool is_client_done, is_server_done, is_closing;
};

static void watch(struct port_tcp *t)
{
	uint32_t events = 0;

	if (!t->io)
		return;
	if (!t->is_server_done && ws_pending(t->ws) < HTTP_HIGH_WATER)
		events |= EPOLLIN;
	if (t->out.len > 0)
		events |= EPOLLOUT;
	loop_io_set(t->io, events);
}

static void hang_up(struct port_tcp *t, unsigned code, const char *reason)
{
	t->is_closing = true;
	loop_io_removep(&t->io);
	ws_close(t->ws, code, reason);
}

static void end_if_done(struct port_tcp *t)
{
	if (t->is_client_done && t->is_server_done && t->out.len == 0 && !t->is_closing)
		hang_up(t, CLOSE_NORMAL, "both ends are done");
}

static void transmit(struct port_tcp *t)
{
	while (t->out.len > 0) {
		ssize_t n = send(t->fd, t->out.data, t->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) { /* nobody takes it; what was said before is still to be read */
			buf_consume(&t->out, t->out.len);
			break;
		}
		port_connection_count(t->line, (uint64_t)n, 0);
		buf_consume(&t->out, (size_t)n);
	}
	ws_pause(t->ws, t->out.len > 0);
	if (t->out.len == 0 && t->is_client_done)
		(void)shutdown(t->fd, SHUT_WR);
}

static void receive(struct port_tcp *t)
{
	static const char eof[] = "{\"eof\": true}";
	char data[READ_SIZE];
	ssize_t n;

	if (t->is_server_done || ws_pending(t->ws) >= HTTP_HIGH_WATER)
		return;
	n = recv(t->fd, data, sizeof(data), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		port_connection_count(t->line, 0, (uint64_t)n);
		(void)!ws_send(t->ws, WS_BINARY, data, (size_t)n); /* on_close tells */
		return;
	}
	t->is_server_done = true;
	if (n < 0) /* reset: there is no other way either */
		hang_up(t, CLOSE_NORMAL, "the connection was reset");
	else
		(void)!ws_send(t->ws, WS_TEXT, eof, sizeof(eof) - 1);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct port_tcp *t = arg;

	(void)loop;
	if (events & EPOLLOUT)
		transmit(t);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(t);
	end_if_done(t);
	watch(t);
}

static void on_open(int fd, void *arg)
{
	struct port_tcp *t = arg;

	t->fd = fd;
	if (loop_io_add(t->loop, fd, EPOLLIN | EPOLLOUT, on_io, t, &t->io) < 0)
		hang_up(t, CLOSE_TRY_LATER, "the connection cannot be watched");
	if (t->is_client_done && t->out.len == 0)
		(void)shutdown(fd, SHUT_WR);
}

static void on_cut(const struct err *err, void *arg)
{
	struct port_tcp *t = arg;

	if (!t->is_closing)
		hang_up(t, CLOSE_TRY_LATER, err->message);
}

static void on_message(struct http_ws *ws, enum ws_opcode op, const char *data, size_t len,
                       void *arg)
{
	struct port_tcp *t = arg;

	if (t->is_closing)
		return;
	if (op == WS_TEXT || t->is_client_done) { /* the one text that there is */
		t->is_client_done = true;
		if (t->fd >= 0)
			transmit(t);
		end_if_done(t);
		return;
	}
	if (buf_append(&t->out, data, len) < 0) {
		hang_up(t, CLOSE_POLICY,
		        "the client sent more input than it may before the sandbox reads");
		return;
	}
	if (t->fd >= 0)
		transmit(t);
	else
		ws_pause(ws, true);
	watch(t);
}

static void on_drain(struct http_ws *ws, void *arg)
{
	(void)ws;
	watch(arg);
}

static void free_port_tcp(struct loop *loop, void *arg)
{
	struct port_tcp *t = arg;

	(void)loop;
	buf_done(&t->out);
	free(t);
}

static void on_close(struct http_ws *ws, void *arg)
{
	struct port_tcp *t = arg;

	(void)ws;
	t->is_closing = true;
	port_connection_close(take_ptr(t->line));
	loop_io_removep(&t->io);
	if (t->fd >= 0)
		(void)close(take_fd(&t->fd));
	loop_defer(t->loop, free_port_tcp, t); /* it may be on the stack */
}

int connect_port(struct http_req *req, struct err *err)
{
	static const struct port_connection_ops line_ops = {.on_open = on_open, .on_cut = on_cut};
	static const struct http_ws_ops ws_ops = {
		.on_message = on_message,
		.on_drain = on_drain,
		.on_close = on_close,
		.outlasts_client = true,
	};
	struct port_tcp *t;
	struct sandbox *s;
	uint64_t number;
	int r = 0;

	if (parse_u64(http_param(req, "port"), UINT16_MAX, &number) < 0 || number == 0)
		r = err_field(err, "port", "must be a number from 1 to 65535");
	if (r == 0)
		r = find_awake(req, &s, err);
	if (r != 0)
		return r;
	t = xnew0(struct port_tcp);
	*t = (struct port_tcp){.loop = http_loop(req), .fd = -1, .out = BUF_INIT(WS_MESSAGE_MAX)};
	r = port_connection_open(s, (uint16_t)number, &line_ops, t, &t->line, err);
	if (r == 0)
		r = ws_accept(req, &ws_ops, t, &t->ws, err);
	if (r < 0) {
		port_connection_close(t->line);
		free(t);
	}
	return r;
}
