// SPDX-License-Identifier: Apache-2.0
/* The agent as a vm's host sees it: records of a port, whose other end is a socket here. */
#include "base/fd.h"
#include "proto/frame.h"
#include "proto/port.h"
#include "proto/start.h"
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define DEADLINE_MS (20000 * (int)test_patience())

static int fd = -1;
static pid_t agent;
static struct buf in = BUF_INIT(4 << 20);     /* records */
static struct buf frames = BUF_INIT(4 << 20); /* bytes of the newest connection */
static struct port_record record;             /* the last one */
static bool has_record;
static uint32_t connection;

static void exec_agent(int port_fd)
{
	const char *path = getenv("CLOCHE_AGENT");
	char number[32];

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(number, sizeof(number), "%d", port_fd);
	(void)setenv("CLOCHE_PORT_FD", number, 1);
	(void)fcntl(port_fd, F_SETFD, 0);
	(void)execl(path, "cloche-agent", (char *)NULL);
	_exit(126);
}

static const struct port_record *next_record(void)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char *room;
	ssize_t n;
	int r;

	if (has_record)
		port_consume(&in, &record);
	while ((r = port_get(&in, &record)) == 0) {
		CHECK_INT(poll(&p, 1, DEADLINE_MS), 1);
		CHECK_INT(buf_reserve(&in, 65536, &room), 0);
		n = read(fd, room, 65536);
		CHECK(n > 0);
		buf_commit(&in, (size_t)n);
	}
	CHECK_INT(r, 1);
	has_record = true;
	return &record;
}

static void send_all(const struct buf *out)
{
	CHECK_INT(fd_write_all(fd, out->data, out->len), 0);
}

static void tell(enum port_kind kind, const char *text)
{
	auto_call(buf_done) struct buf out = BUF_INIT(8192);

	CHECK_INT(port_put_control(&out, kind, text, strlen(text)), 0);
	send_all(&out);
}

static void await_control(enum port_kind kind)
{
	const struct port_record *r = next_record();

	CHECK_INT(r->connection, 0);
	CHECK_INT(r->data[0], kind);
}

static void start(void)
{
	int pair[2];

	if (!getenv("CLOCHE_AGENT"))
		SKIP("CLOCHE_AGENT does not name an agent");
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	agent = fork();
	if (agent == 0)
		exec_agent(pair[1]);
	(void)close(pair[1]);
	fd = pair[0];
	await_control(PORT_HERE);
}

static void send_bytes(uint32_t to, const void *data, size_t len)
{
	auto_call(buf_done) struct buf out = BUF_INIT(1 << 20);

	CHECK_INT(port_put(&out, to, data, len), 0);
	send_all(&out);
}

static void send_frame(enum frame_type type, uint32_t channel, const void *payload, size_t len)
{
	auto_call(buf_done) struct buf out = BUF_INIT(1 << 20);

	CHECK_INT(frame_put(&out, type, channel, connection, payload, len), 0);
	send_bytes(connection, out.data, out.len);
}

/* The next frame of the newest connection, until the next call; records of others are passed over.
 */
static struct frame next_frame(void)
{
	static struct frame f;
	static bool has_frame;
	int r;

	if (has_frame)
		frame_consume(&frames, &f);
	while ((r = frame_get(&frames, FRAME_FROM_AGENT, &f)) == 0) {
		const struct port_record *got = next_record();

		CHECK(got->connection <= connection);
		if (got->connection == connection)
			CHECK_INT(buf_append(&frames, got->data, got->len), 0);
	}
	CHECK_INT(r, 1);
	has_frame = true;
	return f;
}

static void begin_connection(uint32_t number)
{
	auto_call(buf_done) struct buf out = BUF_INIT(256);
	struct pack p = {.out = &out};

	connection = number;
	pack_u32(&p, FRAME_VERSION);
	pack_u64(&p, 0);
	for (int i = 0; i < 32; i++)
		pack_u8(&p, 7);
	pack_str(&p, "test");
	send_frame(FRAME_HELLO, 0, out.data, out.len);
	CHECK_INT(next_frame().type, FRAME_WELCOME);
}

static void run(uint32_t channel, const char *script)
{
	auto_call(buf_done) struct buf out = BUF_INIT(FRAME_PAYLOAD_MAX);
	char sh[] = "/bin/sh", c[] = "-c", tag[32], user[16];
	char *argv[] = {sh, c, unconst(script), NULL};
	struct start s = {.kind = START_EXEC,
	                  .tag = tag,
	                  .user = user,
	                  .argv = argv,
	                  .argc = 3,
	                  .cwd = unconst("/"),
	                  .has_stdin = true};

	(void)snprintf(tag, sizeof(tag), "ex_port-%d-%u", (int)getpid(), channel);
	(void)snprintf(user, sizeof(user), "%u", (unsigned)geteuid());
	CHECK_INT(start_encode(&s, &out), 0);
	send_frame(FRAME_START, channel, out.data, out.len);
}

static void send_u64(enum frame_type type, uint32_t channel, uint64_t value)
{
	auto_call(buf_done) struct buf out = BUF_INIT(8);
	struct pack p = {.out = &out};

	pack_u64(&p, value);
	send_frame(type, channel, out.data, out.len);
}

/* All that a channel says until it is closed, acknowledged as it comes. */
static size_t gather(uint32_t channel, struct buf *text)
{
	size_t end = 0;

	for (;;) {
		struct frame f = next_frame();

		if (f.type == FRAME_CLOSED)
			return end;
		if (f.type != FRAME_OUTPUT)
			continue;
		end += f.len - 9;
		if (text)
			CHECK_INT(buf_append(text, f.payload + 9, f.len - 9), 0);
		send_u64(FRAME_ACK, channel, end);
	}
}

TEST_FORKED(a_port_serves_an_exec_once_it_was_set_up, 60)
{
	auto_call(buf_done) struct buf text = BUF_INIT(1024);

	start();
	tell(PORT_SETUP, "hostname=sb-1\n");
	await_control(PORT_READY);
	begin_connection(1);
	run(5, "echo through the port");
	(void)gather(5, &text);
	CHECK_STR(buf_str(&text), "through the port\n");
}

TEST_FORKED(a_wrong_setup_is_told_and_can_be_mended, 60)
{
	start();
	tell(PORT_SETUP, "hostname=a b\n");
	await_control(PORT_FAILED);
	tell(PORT_SETUP, "hostname=ab\n");
	await_control(PORT_READY);
}

TEST_FORKED(a_new_connection_ends_one_that_was_cut_in_a_frame, 60)
{
	auto_call(buf_done) struct buf text = BUF_INIT(1024);
	static const unsigned char half[20] = {100, 0, 0, 0, FRAME_INPUT, [8] = 5, [12] = 7};

	start();
	tell(PORT_SETUP, "");
	await_control(PORT_READY);
	begin_connection(7);
	run(5, "read line; echo \"$line\"");
	send_bytes(7, half, sizeof(half)); /* an INPUT of 100 bytes, of which 4 have come */
	begin_connection(8);
	send_bytes(7, "what comes late of the old one", 30);
	send_u64(FRAME_RESUME, 5, 0);
	send_frame(FRAME_INPUT, 5, "whole\n", 6);
	(void)gather(5, &text);
	CHECK_STR(buf_str(&text), "whole\n");
}

TEST_FORKED(a_connection_that_breaks_the_protocol_is_ended_and_the_next_one_served, 60)
{
	start();
	tell(PORT_SETUP, "");
	await_control(PORT_READY);
	connection = 1;
	send_bytes(1, "this is no frame at all", 23);
	CHECK_INT(next_record()->connection, 1);
	CHECK_INT(record.len, 0);
	begin_connection(2);
}

TEST_FORKED(a_flood_comes_whole_and_in_order, 60)
{
	auto_call(buf_done) struct buf text = BUF_INIT(4 << 20), wanted = BUF_INIT(4 << 20);

	for (unsigned i = 1; i <= 300000; i++)
		CHECK_INT(buf_printf(&wanted, "%u\n", i), 0);
	start();
	tell(PORT_SETUP, "");
	await_control(PORT_READY);
	begin_connection(1);
	run(5, "seq 1 300000");
	CHECK_INT(gather(5, &text), wanted.len);
	CHECK(memcmp(text.data, wanted.data, wanted.len) == 0);
}

TEST_FORKED(a_whole_window_of_input_arrives, 60)
{
	auto_call(buf_done) struct buf text = BUF_INIT(1024);
	static char data[FRAME_DATA_MAX];

	start();
	tell(PORT_SETUP, "");
	await_control(PORT_READY);
	begin_connection(1);
	run(5, "wc -c");
	for (size_t i = 0; i < FRAME_WINDOW / sizeof(data); i++)
		send_frame(FRAME_INPUT, 5, data, sizeof(data));
	send_frame(FRAME_INPUT_END, 5, NULL, 0);
	(void)gather(5, &text);
	CHECK_STR(buf_str(&text), "262144\n");
}

TEST_FORKED(a_machine_at_rest_says_that_it_is_and_nothing_more, 60)
{
	struct pollfd p = {.events = POLLIN};

	start();
	tell(PORT_SETUP, "");
	await_control(PORT_READY);
	tell(PORT_QUIESCE, "");
	await_control(PORT_QUIESCED);
	p.fd = fd;
	CHECK_INT(poll(&p, 1, 50), 0);
}

TEST_FORKED(power_off_ends_the_agent_and_what_it_runs, 60)
{
	int status;

	start();
	tell(PORT_SETUP, "");
	await_control(PORT_READY);
	begin_connection(1);
	run(5, "sleep 600");
	CHECK_INT(next_frame().type, FRAME_STARTED);
	tell(PORT_POWEROFF, "");
	CHECK_INT(waitpid(agent, &status, 0), agent);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
