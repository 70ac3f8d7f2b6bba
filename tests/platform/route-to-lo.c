// SPDX-License-Identifier: Apache-2.0
/*
 * A default route to `lo` in a net namespace without a link: the kernel takes 0.0.0.0 for the
 * source of what goes there unless the route names one, and what goes there without rules is heard
 * by nobody, a listener on the same port and every address included.
 */
#include "platform.h"

#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

static const struct sockaddr_in far_away = {
	.sin_family = AF_INET,
	.sin_port = 0x5050, /* the same in either byte order */
	.sin_addr.s_addr = 0x09090909,
};

static void ip(const char *object, const char *verb, const char *a, const char *b, const char *c,
               const char *d, const char *e)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		(void)execlp("ip", "ip", object, verb, a, b, c, d, e, NULL);
		_exit(127);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
}

static void enter_network(void)
{
	platform_need_root();
	CHECK_INT(unshare(CLONE_NEWNET), 0);
	ip("link", "set", "lo", "up", NULL, NULL, NULL);
}

static const char *source_of_a_packet(void)
{
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in addr = {0};
	socklen_t len = sizeof(addr);

	CHECK_INT(connect(fd, (const struct sockaddr *)&far_away, sizeof(far_away)), 0);
	CHECK_INT(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	return inet_ntoa(addr.sin_addr);
}

TEST_FORKED(a_route_to_lo_needs_a_source, 20)
{
	enter_network();
	ip("route", "add", "default", "dev", "lo", NULL, NULL);
	CHECK_STR(source_of_a_packet(), "0.0.0.0");
	ip("route", "replace", "default", "dev", "lo", "src", "127.0.0.1");
	CHECK_STR(source_of_a_packet(), "127.0.0.1");
}

TEST_FORKED(what_goes_to_lo_by_a_route_alone_is_heard_by_nobody, 20)
{
	const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = far_away.sin_port};
	const struct timeval patience = {.tv_usec = 100000};
	int listener, fd;

	enter_network();
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK_INT(bind(listener, (const struct sockaddr *)&any, sizeof(any)), 0);
	CHECK_INT(listen(listener, 1), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_INT(connect(fd, (const struct sockaddr *)&far_away, sizeof(far_away)), -1);
	CHECK_INT(errno, ENETUNREACH); /* no route */
	ip("route", "add", "default", "dev", "lo", "src", "127.0.0.1");
	CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
	CHECK_INT(connect(fd, (const struct sockaddr *)&far_away, sizeof(far_away)), -1);
	CHECK_INT(errno, EINPROGRESS); /* still, when the time was up */
	CHECK_INT(accept(listener, NULL, NULL), -1);
	CHECK_INT(errno, EAGAIN);
}
