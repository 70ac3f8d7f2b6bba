// SPDX-License-Identifier: Apache-2.0
#include "member/status_socket.h"

#include "base/fd.h"
#include "base/log.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define CLIENTS_MAX 8
#define REPLY_MAX   65536
#define WAIT_MS     5000

struct status_client {
	struct status_socket *socket;
	int fd; /* -1: free */
	struct loop_io *io;
};

struct status_socket {
	struct loop *loop;
	int fd;
	struct loop_io *io;
	json_t *(*status)(void *arg);
	void *arg;
	struct status_client clients[CLIENTS_MAX];
};

static void name_of(const char *run_dir, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/cluster.sock", run_dir);
}

int status_socket_bind(const char *run_dir, int *ret_fd, struct err *err)
{
	auto_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un name;
	mode_t before = umask(0177);
	int r = 0;

	name_of(run_dir, &name);
	(void)unlink(name.sun_path);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&name, sizeof(name)) < 0 ||
	    listen(fd, CLIENTS_MAX) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot listen on '%s'", name.sun_path);
	(void)umask(before);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static void answer(struct status_client *c)
{
	char what[16];
	ssize_t n = recv(c->fd, what, sizeof(what) - 1, MSG_DONTWAIT);
	auto_json json_t *status = NULL;
	auto_free char *text = NULL;

	if (n <= 0)
		return;
	what[n] = '\0';
	status = c->socket->status(c->socket->arg);
	text = json_dumps(status, JSON_COMPACT);
	if (text && strlen(text) < REPLY_MAX)
		(void)!send(c->fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (strcmp(what, STATUS_SOCKET_AGAIN) == 0) {
		log_info("cluster.again", "message='told to read its files anew'");
		loop_stop(c->socket->loop);
	}
}

static void on_client(struct loop *loop, uint32_t events, void *arg)
{
	struct status_client *c = arg;

	(void)loop;
	(void)events;
	answer(c);
	loop_io_removep(&c->io);
	close_fd(&c->fd);
}

static void on_accept(struct loop *loop, uint32_t events, void *arg)
{
	struct status_socket *s = arg;
	auto_fd int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	for (size_t i = 0; fd >= 0 && i < CLIENTS_MAX; i++) {
		struct status_client *c = &s->clients[i];

		if (c->fd >= 0)
			continue;
		if (loop_io_add(loop, fd, EPOLLIN, on_client, c, &c->io) == 0)
			c->fd = take_fd(&fd);
		return;
	}
}

int status_socket_serve(struct loop *loop, int fd, json_t *(*status)(void *arg), void *arg,
                        struct status_socket **ret)
{
	struct status_socket *s = xnew0(struct status_socket);
	int r;

	*s = (struct status_socket){.loop = loop, .fd = fd, .status = status, .arg = arg};
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		s->clients[i] = (struct status_client){.socket = s, .fd = -1};
	r = loop_io_add(loop, fd, EPOLLIN, on_accept, s, &s->io);
	if (r < 0)
		free(s);
	else
		*ret = s;
	return r;
}

int status_socket_ask(const char *run_dir, const char *what, json_t **ret, struct err *err)
{
	auto_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	auto_free char *text = xcalloc(1, REPLY_MAX);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct sockaddr_un name;
	ssize_t n = -1;

	name_of(run_dir, &name);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&name, sizeof(name)) < 0) {
		int r = -errno;

		(void)err_set(err, ERR_UNAVAILABLE, 0, "no member runs on this node");
		(void)err_hint(err, "name the database as `postgres` under [cluster] in the "
		                    "settings file, then: systemctl restart cloche");
		return r;
	}
	if (send(fd, what, strlen(what), MSG_NOSIGNAL) >= 0 && poll(&p, 1, WAIT_MS) == 1)
		n = recv(fd, text, REPLY_MAX - 1, 0);
	if (n <= 0)
		return err_set(err, ERR_UNAVAILABLE, 0, "the member does not answer");
	return json_parse(text, (size_t)n, ret, err);
}
