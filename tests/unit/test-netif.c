// SPDX-License-Identifier: Apache-2.0
/* A vm's network card, for which a veth in a net namespace of the test's own stands. */
#include "agent/vm/netif.h"
#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* What a shell command prints, until the next call; NULL if it fails. */
static const char *shell_says(const char *command)
{
	static char text[4096];
	int fds[2], status = -1;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)dup2(fds[1], STDOUT_FILENO);
		(void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	(void)close(fds[1]);
	while (len < sizeof(text) - 1 && (n = read(fds[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	(void)close(fds[0]);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	return status == 0 ? text : NULL;
}

static void add_card(void)
{
	if (unshare(CLONE_NEWNET) < 0)
		SKIP("no right to make a net namespace");
	if (!shell_says("ip link add eth0 type veth peer name other && ip link set other up"))
		SKIP("no veth here");
}

static const char *ip_says(const char *words)
{
	char command[128];
	const char *said;

	(void)snprintf(command, sizeof(command), "ip -o %s", words);
	said = shell_says(command);
	CHECK(said);
	return said;
}

static struct port_setup setup(const char *ip4, const char *gateway4, const char *ip6,
                               const char *gateway6)
{
	struct port_setup s = {.ip4.is_set = true,
	                       .gateway4.is_set = true,
	                       .ip6.is_set = true,
	                       .gateway6.is_set = true};

	CHECK_INT(inet_pton(AF_INET, ip4, s.ip4.bytes), 1);
	CHECK_INT(inet_pton(AF_INET, gateway4, s.gateway4.bytes), 1);
	CHECK_INT(inet_pton(AF_INET6, ip6, s.ip6.bytes), 1);
	CHECK_INT(inet_pton(AF_INET6, gateway6, s.gateway6.bytes), 1);
	return s;
}

TEST_FORKED(a_card_has_the_addresses_and_routes_that_it_was_told_last_and_no_others, 30)
{
	struct port_setup first, second;
	struct err err;

	add_card();
	first = setup("10.0.2.2", "10.0.2.1", "fd00:c10c::2", "fd00:c10c::1");
	second = setup("10.0.2.6", "10.0.2.5", "fd00:c10c::6", "fd00:c10c::5");
	CHECK_INT(netif_configure(&first, &err), 0);
	CHECK(strstr(ip_says("addr show dev eth0"), "inet 10.0.2.2/30 "));
	CHECK(strstr(ip_says("addr show dev eth0"), "inet6 fd00:c10c::2/126 "));
	CHECK(strstr(ip_says("route show default"), "via 10.0.2.1 "));
	CHECK(strstr(ip_says("-6 route show default"), "via fd00:c10c::1 "));
	CHECK_INT(netif_configure(&second, &err), 0);
	CHECK(strstr(ip_says("addr show dev eth0"), "inet 10.0.2.6/30 "));
	CHECK(strstr(ip_says("addr show dev eth0"), "inet6 fd00:c10c::6/126 "));
	CHECK(!strstr(ip_says("addr show dev eth0"), "10.0.2.2/30"));
	CHECK(!strstr(ip_says("addr show dev eth0"), "fd00:c10c::2/126"));
	CHECK(strstr(ip_says("route show default"), "via 10.0.2.5 "));
	CHECK(!strstr(ip_says("route show default"), "10.0.2.1 "));
	CHECK(!strstr(ip_says("-6 route show default"), "fd00:c10c::1 "));
}

TEST_FORKED(a_machine_without_a_card_is_fine_until_it_is_given_an_address, 30)
{
	const struct port_setup none = {0};
	struct port_setup some;
	struct err err;

	if (unshare(CLONE_NEWNET) < 0)
		SKIP("no right to make a net namespace");
	CHECK_INT(netif_configure(&none, &err), 0);
	some = setup("10.0.2.2", "10.0.2.1", "fd00:c10c::2", "fd00:c10c::1");
	CHECK_INT(netif_configure(&some, &err), -ENODEV);
	CHECK_STR(err.message, "cannot configure eth0: No such device");
	CHECK_INT(netif_up("lo"), 0);
}
