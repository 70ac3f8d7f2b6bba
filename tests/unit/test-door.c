// SPDX-License-Identifier: Apache-2.0
/*
 * The door of a jail, from both sides: programs inside dial and send, the test holds the sockets as
 * the wall would. What is asked inside is a line of Python; a time limit in it is there so that a
 * connection that hangs is told as "timeout" instead of stopping the test.
 */
#include "jail-rig.h"

#include "base/fd.h"
#include "engine/guest/guest.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define WAIT_MS (5000 * (int)test_patience())

static int door[DOOR_SOCKETS];

/* Python's words for what the functions below use. */
#define PRELUDE                                                                                    \
	"import socket as S, errno as E, sys\n"                                                    \
	"def tell(f):\n"                                                                           \
	"    try: print(f() or \"ok\")\n"                                                          \
	"    except TimeoutError: print(\"timeout\")\n"                                            \
	"    except OSError as e: print(E.errorcode[e.errno])\n"                                   \
	"def sock(a, t):\n"                                                                        \
	"    s = S.socket(S.AF_INET6 if \":\" in a else S.AF_INET, t)\n"                           \
	"    s.settimeout(5)\n"                                                                    \
	"    return s\n"                                                                           \
	"def tcp(a, p): tell(lambda: sock(a, S.SOCK_STREAM).connect((a, p)))\n"                    \
	"def udp(a, p): tell(lambda: sock(a, S.SOCK_DGRAM).sendto(b\"?\", (a, p)) and None)\n"     \
	"def ask(a, p):\n"                                                                         \
	"    s = sock(a, S.SOCK_DGRAM)\n"                                                          \
	"    s.sendto(b\"?\", (a, p))\n"                                                           \
	"    d, f = s.recvfrom(9)\n"                                                               \
	"    return d.decode() + \" from \" + f[0]\n"

static const char *python(struct guest *g, const char *who, const char *lines)
{
	auto_free char *command = xasprintf("%s python3 -I -c '%s%s'", who, PRELUDE, lines);

	return jail_rig_say(g, command);
}

static struct guest *begin(uint32_t slot)
{
	struct guest_spec spec = jail_rig_spec(slot);

	return jail_rig_start(&spec);
}

static void open_door(struct guest *g, int *fds)
{
	for (size_t i = 0; i < DOOR_SOCKETS; i++)
		fds[i] = -1;
	if (jail_engine.open_door(g, fds, &jail_rig.err) < 0)
		print_error("%s\n", jail_rig.err.message);
	for (size_t i = 0; i < DOOR_SOCKETS; i++)
		CHECK(fds[i] >= 0);
}

static void close_sockets(int *fds)
{
	for (size_t i = 0; i < DOOR_SOCKETS; i++)
		close_fd(&fds[i]);
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in6 addr;
	socklen_t len = sizeof(addr);

	CHECK_INT(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	return ntohs(addr.sin6_port); /* at the same place in both families */
}

static int accept_one(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, WAIT_MS) == 1 ? accept4(fd, NULL, NULL, SOCK_CLOEXEC) : -1;
}

/* Where the next connection was meant to go, "ADDRESS PORT". */
static const char *next_destination(int listener)
{
	static char text[INET6_ADDRSTRLEN + 16];
	auto_fd int fd = accept_one(listener);
	struct sockaddr_in6 v6;
	struct sockaddr_in v4;
	socklen_t len = sizeof(v6);
	char address[INET6_ADDRSTRLEN];

	CHECK(fd >= 0);
	if (listener == door[DOOR_TCP6]) {
		CHECK_INT(getsockopt(fd, SOL_IPV6, IP6T_SO_ORIGINAL_DST, &v6, &len), 0);
		(void)snprintf(text, sizeof(text), "%s %u",
		               inet_ntop(AF_INET6, &v6.sin6_addr, address, sizeof(address)),
		               ntohs(v6.sin6_port));
		return text;
	}
	len = sizeof(v4);
	CHECK_INT(getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &v4, &len), 0);
	(void)snprintf(text, sizeof(text), "%s %u",
	               inet_ntop(AF_INET, &v4.sin_addr, address, sizeof(address)),
	               ntohs(v4.sin_port));
	return text;
}

static bool is_silent(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

/* Answers questions with "!" until the test is over. */
static void answer_in_background(int fd)
{
	struct sockaddr_storage peer;
	socklen_t len;
	char byte;

	if (fork() != 0)
		return;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)!fd_set_nonblock(fd, false);
	for (;;) {
		len = sizeof(peer);
		if (recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&peer, &len) != 1 ||
		    sendto(fd, "!", 1, 0, (struct sockaddr *)&peer, len) != 1)
			_exit(0);
	}
}

/* What a command of the host says in the guest's net namespace. */
static const char *on_host(struct guest *g, const char *command)
{
	auto_free char *line = xasprintf("nsenter -t %d -n %s 2>&1", (int)g->pid, command);

	return jail_rig_host_says(line);
}

TEST_FORKED(every_tcp_connection_arrives_with_the_address_it_was_meant_for, 60)
{
	struct guest *g;

	jail_rig_set_up(/* is_plain= */ true);
	g = begin(1);
	CHECK_STR(python(g, "user", "tcp(\"1.2.3.4\", 443); tcp(\"2001:db8::1\", 443)"),
	          "ENETUNREACH\nENETUNREACH"); /* the control: no door, no way */
	open_door(g, door);
	CHECK_STR(python(g, "user",
	                 "tcp(\"1.2.3.4\", 443); tcp(\"169.254.169.254\", 80)\n"
	                 "tcp(\"10.0.0.1\", 53); tcp(\"127.0.0.1\", 53)\n"
	                 "tcp(\"::ffff:9.9.9.9\", 25)\n"
	                 "tcp(\"2001:db8::1\", 443); tcp(\"fd00:ec2::254\", 80)\n"
	                 "tcp(\"::1\", 53)"),
	          "ok\nok\nok\nok\nok\nok\nok\nok");
	CHECK_STR(next_destination(door[DOOR_TCP4]), "1.2.3.4 443");
	CHECK_STR(next_destination(door[DOOR_TCP4]), "169.254.169.254 80");
	CHECK_STR(next_destination(door[DOOR_TCP4]), "10.0.0.1 53");
	CHECK_STR(next_destination(door[DOOR_TCP4]), "127.0.0.1 53");
	CHECK_STR(next_destination(door[DOOR_TCP4]), "9.9.9.9 25");
	CHECK_STR(next_destination(door[DOOR_TCP6]), "2001:db8::1 443");
	CHECK_STR(next_destination(door[DOOR_TCP6]), "fd00:ec2::254 80");
	CHECK_STR(next_destination(door[DOOR_TCP6]), "::1 53");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(a_question_to_any_resolver_is_answered_as_if_by_it, 60)
{
	struct guest *g;

	jail_rig_set_up(true);
	g = begin(1);
	open_door(g, door);
	answer_in_background(door[DOOR_DNS4]);
	answer_in_background(door[DOOR_DNS6]);
	CHECK_STR(python(g, "user",
	                 "for a in \"8.8.8.8\", \"127.0.0.1\", \"2001:db8::53\", \"::1\":\n"
	                 "    tell(lambda: ask(a, 53))"),
	          "! from 8.8.8.8\n! from 127.0.0.1\n! from 2001:db8::53\n! from ::1");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(what_has_no_way_out_fails_at_once, 60)
{
	struct guest *g;

	jail_rig_set_up(true);
	g = begin(1);
	open_door(g, door);
	CHECK_STR(python(g, "user",
	                 "udp(\"8.8.8.8\", 443); udp(\"2001:db8::1\", 443)\n"
	                 "udp(\"224.0.0.251\", 5353); udp(\"ff02::fb\", 5353)\n"
	                 "udp(\"127.0.0.1\", 443)"), /* the control */
	          "EPERM\nEPERM\nEPERM\nEPERM\nok");
	/* ICMP, SCTP and raw packets need sockets that nobody inside gets. */
	CHECK_STR(python(g, "root",
	                 "for f, t, p in (2, 2, 1), (2, 3, 1), (2, 3, 255), (10, 3, 58), (2, 1, "
	                 "132), (17, 3, 768):\n"
	                 "    try: S.socket(f, t, p); print(\"socket\")\n"
	                 "    except OSError as e: print(\"none\")"),
	          "none\nnone\nnone\nnone\nnone\nnone");
	CHECK(is_silent(door[DOOR_TCP4]) && is_silent(door[DOOR_DNS4]));
	CHECK(is_silent(door[DOOR_TCP6]) && is_silent(door[DOOR_DNS6]));
	close_sockets(door);
	/* With nobody behind the door: refused, not open and not waiting. */
	CHECK_STR(python(g, "user", "tcp(\"1.2.3.4\", 443); tcp(\"2001:db8::1\", 443)"),
	          "ECONNREFUSED\nECONNREFUSED");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(traffic_inside_goes_on_beside_the_door_and_is_not_tracked, 60)
{
	struct guest *g;

	jail_rig_set_up(true);
	g = begin(1);
	open_door(g, door);
	CHECK_STR(python(g, "user",
	                 "for a in \"127.0.0.1\", \"127.9.9.9\", \"::1\":\n"
	                 "    l = sock(a, S.SOCK_STREAM); l.bind((a, 80)); l.listen()\n"
	                 "    c = sock(a, S.SOCK_STREAM); c.connect((a, 80))\n"
	                 "    d = l.accept()[0]; d.sendall(b\"hello\"); print(c.recv(9).decode())"),
	          "hello\nhello\nhello");
	CHECK_STR(on_host(g, "cat /proc/net/nf_conntrack"), "");
	CHECK_STR(python(g, "user", "tcp(\"1.2.3.4\", 443)"), "ok");
	CHECK(strstr(on_host(g, "cat /proc/net/nf_conntrack"), "dst=1.2.3.4") != NULL);
	CHECK(is_silent(door[DOOR_TCP6]));
	jail_rig_end(g);
	jail_rig_tear_down();
}

static const char inside_rules[] = "\t\tmeta nfproto %1$s tcp sport %2$u accept\n"
				   "\t\tmeta nfproto %1$s tcp dport %2$u accept\n"
				   "\t\tmeta nfproto %1$s udp sport %3$u accept\n"
				   "\t\tmeta nfproto %1$s udp dport %3$u accept\n"
				   "\t\tmeta nfproto %1$s tcp dport 53 accept\n"
				   "\t\tmeta nfproto %1$s udp dport 53 accept\n"
				   "\t\t%4$s notrack\n";
static const char door_rules[] = "\t\tmeta nfproto %1$s tcp dport 53 redirect to :%2$u\n"
				 "\t\tmeta nfproto %1$s udp dport 53 redirect to :%3$u\n"
				 "\t\t%4$s meta l4proto tcp redirect to :%2$u\n";

TEST_FORKED(the_rules_are_those_that_are_written_down, 60)
{
	auto_free char *expected = NULL, *inside4 = NULL, *inside6 = NULL, *door4 = NULL,
		       *door6 = NULL;
	uint16_t p[DOOR_SOCKETS];
	struct guest *g;

	jail_rig_set_up(true);
	g = begin(1);
	open_door(g, door);
	for (size_t i = 0; i < DOOR_SOCKETS; i++)
		p[i] = port_of(door[i]);
	inside4 =
		xasprintf(inside_rules, "ipv4", p[DOOR_TCP4], p[DOOR_DNS4], "ip daddr 127.0.0.0/8");
	inside6 = xasprintf(inside_rules, "ipv6", p[DOOR_TCP6], p[DOOR_DNS6], "ip6 daddr ::1");
	door4 = xasprintf(door_rules, "ipv4", p[DOOR_TCP4], p[DOOR_DNS4],
	                  "ip daddr != 127.0.0.0/8");
	door6 = xasprintf(door_rules, "ipv6", p[DOOR_TCP6], p[DOOR_DNS6], "ip6 daddr != ::1");
	expected = xasprintf("table inet cloche {\n"
	                     "\tchain inside {\n"
	                     "\t\ttype filter hook output priority raw; policy accept;\n"
	                     "%s%s\t}\n\n"
	                     "\tchain door {\n"
	                     "\t\ttype nat hook output priority -100; policy accept;\n"
	                     "%s%s\t}\n\n"
	                     "\tchain rest {\n"
	                     "\t\ttype filter hook output priority filter; policy drop;\n"
	                     "\t\tct state new limit rate over 250/second burst 1000 packets drop\n"
	                     "\t\tip daddr 127.0.0.0/8 accept\n"
	                     "\t\tip6 daddr ::1 accept\n"
	                     "\t\tct state established,related accept\n"
	                     "\t}\n}\n",
	                     inside4, inside6, door4, door6);
	CHECK_STR(on_host(g, "nft list ruleset"), expected);
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(nobody_inside_sees_or_changes_rules_links_and_routes, 60)
{
	static const char *const attempts[] = {
		"root nft list ruleset 2>&1",
		"root nft flush ruleset 2>&1",
		"root ip link add x type dummy 2>&1",
		"root ip link set lo down 2>&1",
		"root ip route del default 2>&1",
		"root ip addr add 10.1.1.1/8 dev lo 2>&1",
		"root unshare -n true 2>&1",
		"root nsenter -t 1 -n true 2>&1",
		"root cat /proc/net/nf_conntrack 2>&1",
		"root echo 1 2>&1 >/proc/sys/net/ipv4/ip_forward",
	};
	struct guest *g;

	jail_rig_set_up(true);
	g = begin(1);
	open_door(g, door);
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		auto_free char *line = xasprintf("%s; echo status $?", attempts[i]);
		const char *said = jail_rig_say(g, line);

		if (strstr(said, "status 0") || strstr(said, "table inet"))
			print_error("%s: %s\n", attempts[i], said);
		CHECK(!strstr(said, "status 0") && !strstr(said, "table inet"));
	}
	CHECK(strstr(on_host(g, "nft list ruleset"), "table inet cloche") != NULL);
	CHECK_STR(on_host(g, "ip route add 10.0.0.0/8 dev lo"), ""); /* the control */
	CHECK_STR(python(g, "user", "tcp(\"1.2.3.4\", 443)"), "ok");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(even_with_the_rules_gone_nothing_is_reached, 60)
{
	struct guest *g;

	jail_rig_set_up(true);
	g = begin(1);
	open_door(g, door);
	CHECK_STR(on_host(g, "nft flush ruleset"), "");
	CHECK_STR(python(g, "user",
	                 "for a in \"1.2.3.4\", \"2001:db8::1\", \"169.254.169.254\":\n"
	                 "    s = sock(a, S.SOCK_STREAM); s.settimeout(0.1)\n"
	                 "    try: s.connect((a, 80)); print(\"reached\")\n"
	                 "    except OSError: print(\"not\")"),
	          "not\nnot\nnot");
	CHECK(is_silent(door[DOOR_TCP4]) && is_silent(door[DOOR_TCP6]));
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(nobody_inside_takes_or_shares_the_ports_of_a_door, 60)
{
	auto_free char *lines = NULL;
	struct guest *g;

	jail_rig_set_up(true);
	g = begin(1);
	open_door(g, door);
	lines = xasprintf(
		"def take(a, t, p):\n"
		"    s = sock(a, t)\n"
		"    s.setsockopt(S.SOL_SOCKET, S.SO_REUSEADDR, 1)\n"
		"    s.setsockopt(S.SOL_SOCKET, S.SO_REUSEPORT, 1)\n"
		"    s.bind((a, p))\n"
		"    if t == S.SOCK_STREAM: s.listen()\n"
		"for a, t, p in ((\"127.0.0.1\", 1, %u), (\"0.0.0.0\", 1, %u), (\"::1\", 1, %u), "
		"(\"::\", 1, %u), (\"127.0.0.1\", 2, %u), (\"0.0.0.0\", 2, %u), (\"::1\", 2, %u), "
		"(\"127.0.0.1\", 1, 80)):\n"
		"    tell(lambda: take(a, t, p))",
		port_of(door[DOOR_TCP4]), port_of(door[DOOR_TCP4]), port_of(door[DOOR_TCP6]),
		port_of(door[DOOR_TCP6]), port_of(door[DOOR_DNS4]), port_of(door[DOOR_DNS4]),
		port_of(door[DOOR_DNS6]));
	for (int i = 0; i < 2; i++)
		CHECK_STR(python(g, i ? "root" : "user", lines),
		          "EADDRINUSE\nEADDRINUSE\nEADDRINUSE\nEADDRINUSE\nEADDRINUSE\n"
		          "EADDRINUSE\nEADDRINUSE\nok");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(a_connection_to_the_door_itself_is_told_as_that, 60)
{
	auto_free char *lines = NULL, *itself4 = NULL, *itself6 = NULL;
	struct guest *g;

	jail_rig_set_up(true);
	g = begin(1);
	open_door(g, door);
	lines = xasprintf("tcp(\"127.0.0.1\", %u); tcp(\"::1\", %u); tcp(\"1.2.3.4\", 80)",
	                  port_of(door[DOOR_TCP4]), port_of(door[DOOR_TCP6]));
	itself4 = xasprintf("127.0.0.1 %u", port_of(door[DOOR_TCP4]));
	itself6 = xasprintf("::1 %u", port_of(door[DOOR_TCP6]));
	CHECK_STR(python(g, "user", lines), "ok\nok\nok");
	CHECK_STR(next_destination(door[DOOR_TCP4]), itself4);
	CHECK_STR(next_destination(door[DOOR_TCP6]), itself6);
	CHECK_STR(next_destination(door[DOOR_TCP4]), "1.2.3.4 80"); /* the control */
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(what_leaves_one_sandbox_never_arrives_at_the_door_of_another, 60)
{
	int other[DOOR_SOCKETS];
	struct guest *a, *b;
	auto_free char *lines = NULL;

	jail_rig_set_up(true);
	a = begin(1);
	b = begin(2);
	open_door(a, door);
	open_door(b, other);
	CHECK_STR(python(a, "user", "tcp(\"1.2.3.4\", 443); udp(\"8.8.8.8\", 53)"), "ok\nok");
	CHECK(!is_silent(door[DOOR_TCP4]) && !is_silent(door[DOOR_DNS4])); /* the control */
	/* Also not by naming the other's port, which is nothing here. */
	lines = xasprintf("tcp(\"127.0.0.1\", %u)", port_of(other[DOOR_TCP4]));
	if (port_of(other[DOOR_TCP4]) != port_of(door[DOOR_TCP4]))
		CHECK_STR(python(a, "user", lines), "ECONNREFUSED");
	for (size_t i = 0; i < DOOR_SOCKETS; i++)
		CHECK(is_silent(other[i]));
	jail_rig_end(a);
	jail_rig_end(b);
	jail_rig_tear_down();
}

TEST_FORKED(a_door_opened_again_has_new_sockets_and_the_old_ones_get_nothing, 60)
{
	int old[DOOR_SOCKETS];
	struct guest *g;

	jail_rig_set_up(true);
	g = begin(1);
	open_door(g, old);
	open_door(g, door);
	CHECK_STR(python(g, "user", "tcp(\"1.2.3.4\", 443); tcp(\"2001:db8::1\", 443)"), "ok\nok");
	CHECK_STR(next_destination(door[DOOR_TCP4]), "1.2.3.4 443");
	CHECK_STR(next_destination(door[DOOR_TCP6]), "2001:db8::1 443");
	CHECK(is_silent(old[DOOR_TCP4]) && is_silent(old[DOOR_TCP6]));
	close_sockets(old);
	close_sockets(door); /* as when the wall dies */
	open_door(g, door);
	CHECK_STR(python(g, "user", "tcp(\"1.2.3.4\", 444)"), "ok");
	CHECK_STR(next_destination(door[DOOR_TCP4]), "1.2.3.4 444");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(a_closed_door_leaves_neither_route_nor_rule, 60)
{
	struct guest *g;

	jail_rig_set_up(true);
	g = begin(1);
	CHECK_INT(jail_engine.close_door(g, &jail_rig.err), 0); /* never opened */
	open_door(g, door);
	CHECK_STR(python(g, "user", "tcp(\"1.2.3.4\", 443)"), "ok");
	CHECK_INT(jail_engine.close_door(g, &jail_rig.err), 0);
	CHECK_INT(jail_engine.close_door(g, &jail_rig.err), 0);
	CHECK_STR(python(g, "user",
	                 "tcp(\"1.2.3.4\", 443); tcp(\"2001:db8::1\", 443); udp(\"8.8.8.8\", 53)"),
	          "ENETUNREACH\nENETUNREACH\nENETUNREACH");
	CHECK_STR(on_host(g, "nft list ruleset"), "");
	CHECK_STR(on_host(g, "ip route"), "");
	open_door(g, door);
	CHECK_STR(python(g, "user", "tcp(\"1.2.3.4\", 443)"), "ok");
	jail_rig_end(g);
	jail_rig_tear_down();
}

TEST_FORKED(the_next_broker_opens_the_doors_of_those_it_adopts, 60)
{
	struct guest_spec spec, adopted;
	struct guest *g;

	jail_rig_set_up(true);
	spec = jail_rig_spec(1);
	g = jail_rig_start(&spec);
	open_door(g, door);
	close_sockets(door);
	jail_engine.leave(jail_rig.host);
	jail_rig_probe();
	CHECK_INT(jail_engine.adopt(jail_rig.host, spec.id, jail_rig_on_ended, NULL, &g, &adopted,
	                            &jail_rig.err),
	          0);
	open_door(g, door);
	CHECK_STR(python(g, "user", "tcp(\"1.2.3.4\", 443)"), "ok");
	CHECK_STR(next_destination(door[DOOR_TCP4]), "1.2.3.4 443");
	jail_rig_end(g);
	jail_rig_tear_down();
}

static const char *dial_and_read(struct guest *g, int family, uint16_t port)
{
	static char text[16];
	auto_fd int fd = -1;
	struct pollfd p = {.events = POLLIN};
	ssize_t n;

	CHECK_INT(jail_engine.dial(g, family, port, &fd, &jail_rig.err), 0);
	p.fd = fd;
	CHECK_INT(poll(&p, 1, WAIT_MS), 1);
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return strerrorname_np(errno);
	text[n] = '\0';
	return text;
}

TEST_FORKED(a_dialled_port_is_the_one_inside_with_and_without_a_door, 60)
{
	static const char serve[] =
		"import os\n"
		"l = [sock(a, S.SOCK_STREAM) for a in (\"127.0.0.1\", \"::1\")]\n"
		"l[0].bind((\"127.0.0.1\", 3000)); l[1].bind((\"::1\", 3001))\n"
		"for s in l: s.listen(); s.settimeout(None)\n"
		"if os.fork(): os._exit(0)\n"
		"os.close(1); os.close(2)\n"
		"while True:\n"
		"    for s, w in zip(l, (b\"four\", b\"six\")): s.accept()[0].sendall(w)";
	struct guest *g;

	jail_rig_set_up(true);
	g = begin(1);
	CHECK_STR(dial_and_read(g, AF_INET, 3000), "ECONNREFUSED");
	CHECK_STR(python(g, "user", serve), "");
	for (int i = 0; i < 2; i++) {
		CHECK_STR(dial_and_read(g, AF_INET, 3000), "four");
		CHECK_STR(dial_and_read(g, AF_INET6, 3001), "six");
		CHECK_STR(dial_and_read(g, AF_INET6, 3000), "ECONNREFUSED");
		open_door(g, door);
	}
	CHECK(is_silent(door[DOOR_TCP4]) && is_silent(door[DOOR_TCP6]));
	jail_rig_end(g);
	jail_rig_tear_down();
}

static ino_t net_namespace(void)
{
	struct stat st;

	CHECK_INT(stat("/proc/self/ns/net", &st), 0);
	return st.st_ino;
}

TEST_FORKED(the_broker_is_back_on_the_host_also_when_it_fails_inside, 60)
{
	struct rlimit few;
	struct guest *g;
	ino_t host;
	int fd, next;

	jail_rig_set_up(true);
	host = net_namespace();
	g = begin(1);
	open_door(g, door);
	CHECK_INT(net_namespace(), host);
	CHECK_INT(getrlimit(RLIMIT_NOFILE, &few), 0);
	close_sockets(door);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	(void)close(next);
	few.rlim_cur = (rlim_t)next + 1; /* one socket can be opened, not all */
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
	CHECK_INT(jail_engine.open_door(g, door, &jail_rig.err), -EMFILE);
	CHECK_INT(net_namespace(), host);
	CHECK_INT(door[DOOR_TCP4], -1);
	CHECK_INT(jail_engine.dial(g, AF_INET, 1, &fd, &jail_rig.err), 0);
	CHECK_INT(net_namespace(), host);
	few.rlim_cur = few.rlim_max;
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
	jail_rig_end(g);
	jail_rig_tear_down();
}
