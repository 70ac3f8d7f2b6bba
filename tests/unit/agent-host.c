// SPDX-License-Identifier: Apache-2.0
#include "agent-host.h"

#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define DEADLINE_MS (20000 * (int)test_patience())

static struct {
	int listen_fd, fd;
	struct sockaddr_un address;
	socklen_t address_len;
	uint32_t epoch;
	uint32_t next_channel;
	struct buf in;
	struct frame last;
	bool has_last;
} host = {.listen_fd = -1, .fd = -1, .in = BUF_INIT(4 << 20), .next_channel = 1000};

bool host_acks = true;

static void listen_somewhere(void)
{
	host.address = (struct sockaddr_un){.sun_family = AF_UNIX};
	host.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(host.listen_fd >= 0);
	/* No name given: the kernel finds an abstract one. */
	CHECK_INT(bind(host.listen_fd, (struct sockaddr *)&host.address, sizeof(sa_family_t)), 0);
	host.address_len = sizeof(host.address);
	CHECK_INT(getsockname(host.listen_fd, (struct sockaddr *)&host.address, &host.address_len),
	          0);
	CHECK_INT(listen(host.listen_fd, 8), 0);
}

static void exec_agent(void)
{
	const char *path = getenv("CLOCHE_AGENT");
	char number[32];

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(number, sizeof(number), "%d", host.listen_fd);
	(void)setenv("CLOCHE_LISTEN_FD", number, 1);
	(void)setenv("CLOCHE_NOFILE", "512", 1);
	(void)fcntl(host.listen_fd, F_SETFD, 0);
	(void)execl(path ? path : "missing", "cloche-agent", (char *)NULL);
	_exit(126);
}

void host_start(void)
{
	pid_t pid;

	if (!getenv("CLOCHE_AGENT"))
		SKIP("CLOCHE_AGENT does not name an agent");
	listen_somewhere();
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		exec_agent();
	host_connect(1);
	host_hello();
}

void host_start_as_init(void)
{
	pid_t pid;

	if (!getenv("CLOCHE_AGENT"))
		SKIP("CLOCHE_AGENT does not name an agent");
	if (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET) < 0)
		SKIP("no right to make namespaces");
	listen_somewhere();
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("proc", "/proc", "proc", 0, NULL) < 0)
			_exit(125);
		exec_agent();
	}
	host_connect(1);
	host_hello();
}

void host_drop(void)
{
	if (host.fd >= 0)
		(void)close(host.fd);
	host.fd = -1;
	host.has_last = false;
	buf_done(&host.in);
}

void host_connect(uint32_t epoch)
{
	host_drop();
	host.epoch = epoch;
	host.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(host.fd >= 0);
	CHECK_INT(connect(host.fd, (struct sockaddr *)&host.address, host.address_len), 0);
}

void host_send_raw(const void *data, size_t len)
{
	/* A peer that hangs up in the middle is what some tests wait for. */
	while (len > 0) {
		ssize_t n = send(host.fd, data, len, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		data = (const char *)data + n;
		len -= (size_t)n;
	}
}

void host_send(enum frame_type type, uint32_t channel, const void *payload, size_t len)
{
	auto_call(buf_done) struct buf out = BUF_INIT(1 << 20);

	CHECK_INT(frame_put(&out, type, channel, host.epoch, payload, len), 0);
	host_send_raw(out.data, out.len);
}

void host_send_u64(enum frame_type type, uint32_t channel, uint64_t value)
{
	auto_call(buf_done) struct buf out = BUF_INIT(8);
	struct pack p = {.out = &out};

	pack_u64(&p, value);
	host_send(type, channel, out.data, out.len);
}

void host_hello(void)
{
	auto_call(buf_done) struct buf out = BUF_INIT(256);
	struct pack p = {.out = &out};
	struct frame f;

	pack_u32(&p, FRAME_VERSION);
	pack_u64(&p, 0);
	for (int i = 0; i < 32; i++)
		pack_u8(&p, 7);
	pack_str(&p, "test");
	host_send(FRAME_HELLO, 0, out.data, out.len);
	CHECK(host_next(&f));
	CHECK_INT(f.type, FRAME_WELCOME);
}

void host_signal(uint32_t channel, int signo, enum frame_scope scope)
{
	unsigned char payload[2] = {(unsigned char)signo, (unsigned char)scope};

	host_send(FRAME_SIGNAL, channel, payload, 2);
}

void host_run(uint32_t channel, const struct start *s)
{
	auto_call(buf_done) struct buf out = BUF_INIT(FRAME_PAYLOAD_MAX);

	CHECK_INT(start_encode(s, &out), 0);
	host_send(FRAME_START, channel, out.data, out.len);
}

static bool read_more(void)
{
	struct pollfd p = {.fd = host.fd, .events = POLLIN};
	char *room;
	ssize_t n;

	CHECK_INT(poll(&p, 1, DEADLINE_MS), 1);
	CHECK_INT(buf_reserve(&host.in, 65536, &room), 0);
	n = read(host.fd, room, 65536);
	if (n <= 0)
		return false;
	buf_commit(&host.in, (size_t)n);
	return true;
}

bool host_next(struct frame *ret)
{
	int r;

	if (host.has_last)
		frame_consume(&host.in, &host.last);
	host.has_last = false;
	while ((r = frame_get(&host.in, FRAME_FROM_AGENT, ret)) == 0)
		if (!read_more())
			return false;
	CHECK_INT(r, 1);
	CHECK_INT(ret->epoch, host.epoch);
	host.last = *ret;
	host.has_last = true;
	return true;
}

bool host_is_hung_up(void)
{
	struct frame f;

	while (host_next(&f))
		;
	return true;
}

bool host_is_silent(void)
{
	char byte;

	return recv(host.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

bool host_is_listened_to(int pid)
{
	char path[48], ours[64], theirs[64] = "";
	struct stat st;

	CHECK_INT(fstat(host.listen_fd, &st), 0);
	(void)snprintf(ours, sizeof(ours), "socket:[%lu]", (unsigned long)st.st_ino);
	(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, host.listen_fd);
	return readlink(path, theirs, sizeof(theirs) - 1) > 0 && strcmp(ours, theirs) == 0;
}

static void told_init(struct told *t)
{
	buf_init(&t->out, 64 << 20);
	buf_init(&t->err, 64 << 20);
	buf_init(&t->records, 64 << 20);
}

void told_done(struct told *t)
{
	buf_done(&t->out);
	buf_done(&t->err);
	buf_done(&t->records);
}

bool told_closed(const struct told *t)
{
	return t->is_closed;
}

bool told_exit(const struct told *t)
{
	return t->has_exit;
}

bool told_started(const struct told *t)
{
	return t->has_started;
}

static void take_output(uint32_t channel, struct told *t, struct unpack *u)
{
	uint64_t offset = unpack_u64(u);
	uint8_t stream = unpack_u8(u);
	struct buf *to = stream == STREAM_STDOUT   ? &t->out
	                 : stream == STREAM_STDERR ? &t->err
	                                           : &t->records;

	CHECK_INT(offset, t->end); /* no gap, no repeat */
	CHECK_INT(buf_append(to, u->data, u->len), 0);
	t->end += u->len;
	if (host_acks)
		host_send_u64(FRAME_ACK, channel, t->end);
}

static void take_frame(const struct frame *f, struct told *t)
{
	struct unpack u = {.data = f->payload, .len = f->len};

	CHECK(!t->is_closed);
	switch ((int)f->type) {
	case FRAME_STARTED:
		t->pid = unpack_u32(&u);
		t->has_started = true;
		break;
	case FRAME_OUTPUT:
		take_output(f->channel, t, &u);
		break;
	case FRAME_INPUT_ACK:
		t->input_acked = unpack_u64(&u);
		break;
	case FRAME_EXIT:
		CHECK_INT(channel_exit_decode(f->payload, f->len, &t->exit), 0);
		CHECK_INT(t->exit.output_end, t->end);
		t->has_exit = true;
		break;
	case FRAME_CLOSED:
		CHECK(t->has_exit);
		t->is_closed = true;
		break;
	default:
		CHECK_STR(frame_type_name(f->type), "a frame of a channel");
	}
}

void host_gather(uint32_t channel, struct told *t, bool (*until)(const struct told *t))
{
	struct frame f;

	if (t->out.cap == 0)
		told_init(t);
	while (!until(t)) {
		CHECK(host_next(&f));
		if (f.channel == channel) /* else of one that was just forgotten */
			take_frame(&f, t);
	}
}

const char *host_user(void)
{
	static char number[16];

	(void)snprintf(number, sizeof(number), "%u", (unsigned)geteuid());
	return number;
}

struct start host_script(const char *script)
{
	/* Its own: a kill finds whatever bears the tag, on the whole host. */
	static char tag[32];
	static char sh[] = "/bin/sh", c[] = "-c", *argv[4];

	argv[0] = sh;
	argv[1] = c;
	argv[2] = unconst(script);
	(void)snprintf(tag, sizeof(tag), "ex_test-%d", (int)getpid());
	return (struct start){.kind = START_EXEC,
	                      .tag = tag,
	                      .user = unconst(host_user()),
	                      .argv = argv,
	                      .argc = 3,
	                      .cwd = unconst("/")};
}

/* The host's side of the stdin window: never more than FRAME_WINDOW past the last INPUT_ACK. */
static void feed_input(uint32_t channel, struct told *t, const char *input, size_t len)
{
	size_t sent = 0;
	struct frame f;

	while (sent < len && !t->has_exit) {
		size_t room = (size_t)(t->input_acked + FRAME_WINDOW - sent);
		size_t n = MIN(MIN(len - sent, room), (size_t)FRAME_DATA_MAX);

		if (n > 0) {
			host_send(FRAME_INPUT, channel, input + sent, n);
			sent += n;
			continue;
		}
		CHECK(host_next(&f));
		if (f.channel == channel) /* else of one that was just forgotten */
			take_frame(&f, t);
	}
	host_send(FRAME_INPUT_END, channel, NULL, 0);
}

void host_call(struct told *t, const struct start *s, const char *input, size_t input_len)
{
	uint32_t channel = host.next_channel++;

	memset(t, 0, sizeof(*t));
	told_init(t);
	host_run(channel, s);
	if (input)
		feed_input(channel, t, input, input_len);
	host_gather(channel, t, told_closed);
	host_send(FRAME_FORGET, channel, NULL, 0);
}

void host_exec(struct told *t, const char *script)
{
	struct start s = host_script(script);

	host_call(t, &s, NULL, 0);
}

void host_await_death(pid_t pid)
{
	auto_fd int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (fd >= 0)
		CHECK_INT(poll(&p, 1, DEADLINE_MS), 1);
}
