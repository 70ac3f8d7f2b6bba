// SPDX-License-Identifier: Apache-2.0
/*
 * Root of a user namespace has no capability over a net namespace that belongs to the host's, and
 * a pathname socket made in there can be reached from the host's net namespace.
 */
#include "platform.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static int set_lo(void *arg)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)arg;
	if (fd < 0)
		return 1;
	return ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? errno : 0;
}

TEST_FORKED(root_inside_has_no_say_over_a_net_namespace_of_the_host, 20)
{
	platform_need_root();
	CHECK_INT(platform_in_userns(CLONE_NEWNET, set_lo, NULL, NULL), 0); /* the control */
	CHECK_INT(unshare(CLONE_NEWNET), 0);
	CHECK_INT(platform_in_userns(0, set_lo, NULL, NULL), EPERM);
}

TEST_FORKED(a_pathname_socket_is_reached_across_net_namespaces, 20)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int host_fd, listener, fd;

	platform_need_root();
	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "/tmp/platform.%d", (int)getpid());
	host_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	CHECK_INT(unshare(CLONE_NEWNET), 0);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_INT(listen(listener, 1), 0);
	CHECK_INT(setns(host_fd, CLONE_NEWNET), 0);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_INT(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_INT(unlink(addr.sun_path), 0);
}
