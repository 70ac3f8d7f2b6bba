// SPDX-License-Identifier: Apache-2.0
#include "member/name_resolver.h"

#include "base/fd.h"
#include "daemon/confine/confine.h"
#include "member/socket_child.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define NOBODY    65534
#define HOST_MAX  256
#define CALLS_MAX 16

struct resolver_call {
	resolved_fn fn;
	void *arg;
};

struct name_resolver {
	int fd;
	struct loop_io *io;
	struct resolver_call calls[CALLS_MAX]; /* a ring */
	size_t first, n;
};

static void resolve(const char *host, struct resolved *ret)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	struct addrinfo *list = NULL;
	int r = getaddrinfo(host, NULL, &hints, &list);

	if (r != 0)
		(void)snprintf(ret->why, sizeof(ret->why), "%s", gai_strerror(r));
	for (const struct addrinfo *ai = list; ai && ret->n < RESOLVER_ADDRESSES_MAX;
	     ai = ai->ai_next)
		if (getnameinfo(ai->ai_addr, ai->ai_addrlen, ret->addresses[ret->n], RESOLVER_TEXT,
		                NULL, 0, NI_NUMERICHOST) == 0)
			ret->n++;
	if (list)
		freeaddrinfo(list);
}

static void run_child(int fd)
{
	const struct confine_plan plan = {.part = CONFINE_DIALER, .uid = NOBODY, .gid = NOBODY};
	char host[HOST_MAX];
	struct err err;
	ssize_t n;

	(void)prctl(PR_SET_NAME, "cloche-names");
	if (confine(&plan, &err) < 0)
		_exit(1);
	while ((n = recv(fd, host, sizeof(host) - 1, 0)) > 0) {
		struct resolved result = {0};

		host[n] = '\0';
		resolve(host, &result);
		if (send(fd, &result, sizeof(result), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

int name_resolver_start(int *ret_fd, struct err *err)
{
	int r = socket_child_fork("the resolver of names", ret_fd, err);

	if (r == 1)
		run_child(STDIN_FILENO);
	return r;
}

static void answer(struct name_resolver *r, const struct resolved *result)
{
	struct resolver_call call = r->calls[r->first];

	if (r->n == 0)
		return;
	r->first = (r->first + 1) % CALLS_MAX;
	r->n--;
	call.fn(result, call.arg);
}

static void on_reply(struct loop *loop, uint32_t events, void *arg)
{
	const struct resolved lost = {.why = "the process that resolves names has died"};
	struct name_resolver *r = arg;
	struct resolved result;
	ssize_t n = recv(r->fd, &result, sizeof(result), MSG_DONTWAIT);

	(void)loop;
	(void)events;
	if (n == (ssize_t)sizeof(result)) {
		result.n = MIN(result.n, RESOLVER_ADDRESSES_MAX);
		for (size_t i = 0; i < RESOLVER_ADDRESSES_MAX; i++)
			result.addresses[i][RESOLVER_TEXT - 1] = '\0';
		result.why[sizeof(result.why) - 1] = '\0';
		answer(r, &result);
	} else if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
		loop_io_removep(&r->io);
		close_fd(&r->fd);
		while (r->n > 0)
			answer(r, &lost);
	}
}

int name_resolver_new(struct loop *loop, int fd, struct name_resolver **ret)
{
	struct name_resolver *r = xnew0(struct name_resolver);
	int result;

	r->fd = fd;
	result = loop_io_add(loop, fd, EPOLLIN, on_reply, r, &r->io);
	if (result < 0) {
		free(r);
		return result;
	}
	*ret = r;
	return 0;
}

int name_resolver_ask(struct name_resolver *r, const char *host, resolved_fn fn, void *arg)
{
	if (r->fd < 0)
		return -EPIPE;
	if (r->n == CALLS_MAX || strlen(host) >= HOST_MAX)
		return -EAGAIN;
	if (send(r->fd, host, strlen(host), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	r->calls[(r->first + r->n) % CALLS_MAX] = (struct resolver_call){.fn = fn, .arg = arg};
	r->n++;
	return 0;
}
