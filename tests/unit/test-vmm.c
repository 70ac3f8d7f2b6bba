// SPDX-License-Identifier: Apache-2.0
/* The parts of cloche-vmm that speak with QEMU, with the guest and with whoever connects: the test
 * is the other end of each. */
#include "test.h"
#include "vmm/card.h"
#include "vmm/ticks.h"

#include "base/fd.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct loop *loop;
static struct qmp qmp;
static struct line line;
static struct card card;
static int qemu, guest; /* the far ends */
static char events[256], controls[256], outcome[512];
static unsigned n_outcomes;
static bool is_broken;

static void on_event(const char *text, void *arg)
{
	(void)arg;
	(void)snprintf(events + strlen(events), sizeof(events) - strlen(events), "%.80s;", text);
	card_on_event(&card, text);
}

static void on_control(enum port_kind kind, const char *text, size_t len, void *arg)
{
	(void)arg;
	(void)snprintf(controls + strlen(controls), sizeof(controls) - strlen(controls), "%d:%.*s;",
	               (int)kind, (int)len, text);
}

static void on_broken(void *arg)
{
	(void)arg;
	is_broken = true;
}

static void on_done(const struct err *err, void *arg)
{
	(void)arg;
	(void)snprintf(outcome, sizeof(outcome), "%s", err ? err->message : "done");
	n_outcomes++;
}

static void on_stop(struct loop *l, void *arg)
{
	(void)arg;
	loop_stop(l);
}

static void turns(void)
{
	for (int i = 0; i < 8; i++) {
		loop_defer(loop, on_stop, NULL);
		CHECK_INT(loop_run(loop), 0);
	}
}

static void start(void)
{
	static const struct line_ops ops = {.on_control = on_control, .on_broken = on_broken};
	const int flags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
	struct err err;
	int a[2], b[2];

	events[0] = controls[0] = outcome[0] = '\0';
	n_outcomes = 0;
	is_broken = false;
	CHECK_INT(loop_new(&loop, &err), 0);
	CHECK_INT(socketpair(AF_UNIX, flags, 0, a), 0);
	CHECK_INT(socketpair(AF_UNIX, flags, 0, b), 0);
	qemu = a[1];
	guest = b[1];
	CHECK_INT(qmp_open(&qmp, loop, a[0], on_event, NULL, &err), 0);
	CHECK_INT(line_open(&line, loop, b[0], &ops, NULL, &err), 0);
	card_init(&card, &qmp, &line, on_done, NULL);
}

static void stop(void)
{
	loop_io_removep(&qmp.io);
	loop_io_removep(&line.port_io);
	loop_io_removep(&line.listen_io);
	loop_io_removep(&line.io);
	buf_done(&line.from_port);
	buf_done(&line.to_port);
	buf_done(&line.to_fd);
	loop_free(loop);
}

static void say(int fd, const char *text)
{
	CHECK_INT(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
	turns();
}

/* What has come at that end, of one line or more. */
static const char *heard(int fd)
{
	static char text[4096];
	ssize_t n;

	turns();
	n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
	text[MAX(n, 0)] = '\0';
	return text;
}

static void check_heard(int fd, const char *word)
{
	const char *text = heard(fd);

	if (!strstr(text, word))
		CHECK_STR(text, word);
}

#define RETURNED "{\"return\": {}}\r\n"

TEST(commands_of_the_monitor_go_one_by_one_and_each_has_its_reply)
{
	struct err err;

	start();
	check_heard(qemu, "qmp_capabilities");
	CHECK_INT(qmp_send(&qmp, -1, on_done, NULL, &err, "{\"execute\":\"one\"}"), 0);
	CHECK_INT(qmp_send(&qmp, -1, on_done, NULL, &err, "{\"execute\":\"two\"}"), 0);
	CHECK_STR(heard(qemu), "");
	say(qemu, "{\"QMP\": {}}\r\n" RETURNED);
	CHECK_STR(heard(qemu), "{\"execute\":\"one\"}\n");
	say(qemu,
	    "{\"event\": \"X\"}\r\n{\"error\": {\"class\": \"G\", \"desc\": \"not so\"}}\r\n");
	CHECK_STR(outcome, "QEMU: not so");
	CHECK_STR(heard(qemu), "{\"execute\":\"two\"}\n");
	say(qemu, RETURNED);
	CHECK_STR(outcome, "done");
	CHECK(strstr(events, "\"X\"") != NULL);
	stop();
}

TEST(a_line_of_the_monitor_that_is_too_long_is_cut_and_the_next_one_read)
{
	static char flood[3 * 4096];

	start();
	memset(flood, 'x', sizeof(flood) - 1);
	(void)heard(qemu);
	say(qemu, flood);
	say(qemu, "\n" RETURNED "{\"event\": \"AFTER\"}\n" RETURNED);
	CHECK(strstr(events, "AFTER") !=
	      NULL); /* a reply that nobody waits for is no more than a line */
	stop();
}

TEST(a_card_is_plugged_in_step_by_step_and_pulled_out)
{
	start();
	(void)heard(qemu);
	say(qemu, RETURNED);
	card_plug(&card, -1, true);
	CHECK_STR(outcome, "its card is not there");
	card_plug(&card, dup(guest), true);
	check_heard(qemu, "getfd");
	say(qemu, RETURNED);
	check_heard(qemu, "netdev_add");
	say(qemu, RETURNED);
	check_heard(qemu, "device_add");
	say(qemu, RETURNED);
	CHECK_INT(n_outcomes, 1);
	CHECK(recv(guest, (char[512]){0}, 512, MSG_DONTWAIT) > PORT_HEAD_SIZE); /* SETUP */
	card_on_ready(&card);
	CHECK_STR(outcome, "done");
	CHECK_INT(card.state, CARD_IN);
	card_pull(&card);
	check_heard(qemu, "device_del");
	say(qemu, RETURNED "{\"event\": \"DEVICE_DELETED\", \"data\": {\"device\": \"other\"}}\n");
	CHECK_INT(card.state, CARD_PULLING);
	say(qemu, "{\"event\": \"DEVICE_DELETED\", \"data\": {\"device\": \"card\"}}\n");
	CHECK_INT(card.state, CARD_OUT);
	CHECK_INT(n_outcomes, 3);
	stop();
}

#define DELETED "{\"event\": \"DEVICE_DELETED\", \"data\": {\"device\": \"card\"}}\n"

/* With a card in it. */
static void start_plugged(void)
{
	start();
	(void)heard(qemu);
	say(qemu, RETURNED);
	card_plug(&card, dup(guest), false);
	for (int i = 0; i < 3; i++)
		say(qemu, RETURNED);
	card_on_ready(&card);
	CHECK_INT(card.state, CARD_IN);
	(void)heard(qemu);
	outcome[0] = '\0';
	n_outcomes = 0;
}

TEST(a_card_is_set_aside_with_its_tap_left_where_it_is_and_put_back)
{
	start_plugged();
	card_set_aside(&card, on_done);
	check_heard(qemu, "device_del");
	say(qemu, RETURNED);
	CHECK_INT(n_outcomes, 0);
	say(qemu, DELETED);
	CHECK_STR(outcome, "done");
	CHECK_INT(card.state, CARD_ASIDE);
	card_put_back(&card);
	check_heard(qemu, "device_add"); /* and netdev_del was not said before it */
	say(qemu, RETURNED);
	card_on_ready(&card);
	CHECK_INT(card.state, CARD_IN);
	CHECK_INT(n_outcomes, 1);
	stop();
}

TEST(a_card_that_leaves_when_nobody_waits_any_more_is_put_back_at_once)
{
	start_plugged();
	card_set_aside(&card, on_done);
	say(qemu, RETURNED);
	card_put_back(&card); /* the guest has taken too long */
	(void)heard(qemu);
	say(qemu, DELETED);
	check_heard(qemu, "device_add");
	CHECK_INT(n_outcomes, 0);
	stop();
}

TEST(a_machine_without_a_card_has_none_to_set_aside)
{
	start();
	card_set_aside(&card, on_done);
	CHECK_STR(outcome, "done");
	card_put_back(&card);
	CHECK_INT(card.state, CARD_OUT);
	stop();
}

TEST(a_card_that_qemu_refuses_is_told_with_its_reason)
{
	start();
	(void)heard(qemu);
	say(qemu, RETURNED);
	card_plug(&card, dup(guest), false);
	say(qemu, RETURNED);
	say(qemu, "{\"error\": {\"class\": \"G\", \"desc\": \"no such bus\"}}\n");
	CHECK_STR(outcome, "QEMU: no such bus");
	CHECK_INT(card.state, CARD_OUT);
	stop();
}

TEST(whoever_asked_and_left_is_told_nothing)
{
	start();
	(void)heard(qemu);
	say(qemu, RETURNED);
	card_plug(&card, dup(guest), false);
	card_forget(&card);
	say(qemu, RETURNED);
	say(qemu, RETURNED);
	say(qemu, RETURNED);
	card_on_ready(&card);
	CHECK_INT(n_outcomes, 0);
	CHECK_INT(card.state, CARD_IN);
	stop();
}

static void say_record(uint32_t connection, const void *data, size_t len)
{
	auto_call(buf_done) struct buf out = BUF_INIT(4096);

	if (len == 0)
		CHECK_INT(port_put_end(&out, connection), 0);
	else
		CHECK_INT(port_put(&out, connection, data, len), 0);
	CHECK_INT(send(guest, out.data, out.len, MSG_NOSIGNAL), (ssize_t)out.len);
	turns();
}

/* A listener without a name that the test can dial. */
static int listen_here(struct sockaddr_un *ret, socklen_t *ret_len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	*ret_len = sizeof(*ret);
	CHECK_INT(bind(fd, (const struct sockaddr *)ret, sizeof(sa_family_t)), 0);
	CHECK_INT(listen(fd, 4), 0);
	CHECK_INT(getsockname(fd, (struct sockaddr *)ret, ret_len), 0);
	return fd;
}

static int dial(const struct sockaddr_un *addr, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK_INT(connect(fd, (const struct sockaddr *)addr, len), 0);
	turns();
	return fd;
}

TEST(bytes_of_the_guest_reach_the_newest_connection_alone)
{
	struct sockaddr_un addr;
	socklen_t len;
	struct err err;
	int listener, first, second;
	uint32_t number;

	start();
	listener = listen_here(&addr, &len);
	CHECK_INT(line_listen(&line, listener, &err), 0);
	first = dial(&addr, len);
	number = line.number;
	say_record(number, "hello", 5);
	CHECK_STR(heard(first), "hello");
	second = dial(&addr, len);
	CHECK(line.number > number);
	say_record(number, "late", 4); /* for the first, which is no more */
	CHECK_STR(heard(second), "");
	CHECK_INT(recv(first, (char[1]){0}, 1, MSG_DONTWAIT), 0);
	say_record(line.number, "on", 2);
	CHECK_STR(heard(second), "on");
	say_record(line.number, NULL, 0);
	CHECK_INT(recv(second, (char[1]){0}, 1, MSG_DONTWAIT), 0);
	(void)close(first);
	(void)close(second);
	stop();
	(void)close(listener);
}

TEST(a_guest_that_sends_what_is_no_record_is_found_out)
{
	start();
	say_record(0, "\002", 1);
	CHECK_STR(controls, "2:;");
	CHECK(!is_broken);
	say(guest, "\377\377\377\377\377\377\377\377");
	CHECK(is_broken);
	stop();
}

TEST(the_counter_of_ticks_has_the_same_speed_whoever_else_runs)
{
	const uint64_t one = ticks_khz(), other = ticks_khz();

#if defined(__x86_64__)
	CHECK(one > 100000);
#endif
	CHECK(one <= other + other / 50 && other <= one + one / 50);
}
