// SPDX-License-Identifier: Apache-2.0
/*
 * A listener on this machine whose connections go to a port in a sandbox. Each has a process and a
 * WebSocket of its own. A message is sent only when the socket has room for it, so that what comes
 * back is always read meanwhile: or two ends that both send would wait for each other for ever.
 */
#include "base/fd.h"
#include "base/parse.h"
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define BYTES_AT_ONCE 8192
#define BACKLOG       64

struct forward {
	uint64_t local, remote;
};

struct line {
	struct http_client *client;
	int fd;
	bool is_local_done, is_remote_done;
};

/* "REMOTE" or "LOCAL:REMOTE" */
static int read_ports(const char *text, struct forward *ret, struct err *err)
{
	const char *colon = strchr(text, ':');
	auto_free char *local = colon ? xasprintf("%.*s", (int)(colon - text), text) : NULL;

	if (parse_u64(colon ? colon + 1 : text, UINT16_MAX, &ret->remote) < 0 || ret->remote == 0 ||
	    parse_u64(local ? local : text, UINT16_MAX, &ret->local) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is neither a port nor LOCAL:REMOTE",
		               text);
	return 0;
}

static int listen_locally(uint64_t port, int *ret_fd, struct err *err)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
	                           .sin_port = htons((uint16_t)port),
	                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(err, ERR_CONFLICT, errno, "cannot listen on 127.0.0.1:%u",
		               (unsigned)port);
	*ret_fd = take_fd(&fd);
	return 0;
}

static unsigned port_of(int fd)
{
	struct sockaddr_in addr = {0};
	socklen_t len = sizeof(addr);

	(void)getsockname(fd, (struct sockaddr *)&addr, &len);
	return ntohs(addr.sin_port);
}

/* Takes all messages that are there. 1: the line is over. */
static int from_remote(struct line *l)
{
	for (;;) {
		enum ws_opcode op;
		const char *data;
		size_t len;
		int r = http_client_ws_recv(l->client, /* wait= */ false, &op, &data, &len);

		if (r == -EAGAIN || r == -EINTR)
			return 0;
		if (r <= 0)
			return r < 0 ? r : 1;
		if (op == WS_TEXT) {
			l->is_remote_done = true;
			(void)shutdown(l->fd, SHUT_WR);
		} else if (fd_write_all(l->fd, data, len) < 0) {
			return 1;
		}
	}
}

static int from_local(struct line *l)
{
	static const char eof[] = "{\"eof\": true}";
	char data[BYTES_AT_ONCE];
	ssize_t n = read(l->fd, data, sizeof(data));

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0)
		return -errno;
	if (n > 0)
		return http_client_ws_send(l->client, WS_BINARY, data, (size_t)n);
	l->is_local_done = true;
	return http_client_ws_send(l->client, WS_TEXT, eof, sizeof(eof) - 1);
}

static void pump(struct line *l)
{
	int r = from_remote(l);

	while (r == 0) {
		struct pollfd fds[] = {
			{http_client_fd(l->client), POLLIN, 0},
			{l->is_local_done ? -1 : l->fd, POLLIN, 0},
		};

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
			continue;
		if (fds[1].revents) {
			fds[0].events = POLLIN | POLLOUT;
			fds[0].revents = 0;
			(void)poll(fds, 1, -1);
		}
		if (fds[1].revents && (fds[0].revents & POLLOUT))
			r = from_local(l);
		if (r == 0)
			r = from_remote(l);
	}
}

/* In a process of its own, which ends with it. */
static void serve_one(struct command *c, const struct forward *f, int fd)
{
	auto_free char *port = xasprintf("%u", (unsigned)f->remote);
	auto_free char *path = remote_path("sandboxes", c->words[0], "ports", port, "tcp");
	struct remote *remote = NULL;
	struct line l = {.fd = fd};
	struct err err;
	int r = remote_open_again(c->remote, &remote, &err);

	if (r == 0)
		r = remote_begin_ws(remote, path, &err);
	if (r < 0) {
		(void)text_fail(&err);
		return;
	}
	l.client = remote_client(remote);
	pump(&l);
	remote_close(remote);
}

static int forward(struct command *c, struct err *err)
{
	struct forward f = {0};
	auto_fd int listener = -1;
	int r = read_ports(c->words[1], &f, err);

	if (r == 0)
		r = listen_locally(f.local, &listener, err);
	if (r < 0)
		return r;
	(void)signal(SIGCHLD, SIG_IGN); /* the kernel reaps them */
	printf("127.0.0.1:%u -> %s:%u\n", port_of(listener), c->words[0], (unsigned)f.remote);
	(void)fflush(stdout);
	for (;;) {
		auto_fd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0 && fork() == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
			(void)close(listener);
			serve_one(c, &f, fd);
			_exit(0);
		}
		if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
			return err_set(err, ERR_INTERNAL, errno, "cannot accept connections");
	}
}

int cmd_port_forward(int argc, char **argv)
{
	const struct manual manual = {
		.name = "port-forward",
		.synopsis = "[OPTIONS] SANDBOX [LOCAL:]PORT",
		.about = "Listens on 127.0.0.1 and passes each connection on to the port in the "
			 "sandbox, until it is\n"
			 "stopped. If LOCAL is 0, it takes a free port and prints it.",
		.examples = "  cloche port-forward box 5432\n"
			    "  cloche port-forward box 8080:80",
		.min_words = 2,
		.max_words = 2,
	};

	return command_main(&manual, argc, argv, forward, NULL);
}
