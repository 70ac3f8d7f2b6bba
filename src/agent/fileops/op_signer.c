// SPDX-License-Identifier: Apache-2.0
/*
 * The way to the signer (proto/signer.h): the host keys of the policy in a file that ssh reads, and
 * a relay that passes the bytes of each visitor of a unix socket on to the network wall.
 *
 * The relay is a process of the sandbox like any other: in its limits, frozen, saved and revived
 * with it. It outlives the operation that started it, and has a child for each visitor. What it
 * passes on is nothing to it; whoever is root inside may kill it, and has then no signer. One that
 * listens already stays. It is found by its socket, which tells the listener's pid.
 */
#include "agent/fileops/files.h"
#include "base/fd.h"
#include "proto/signer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define FILE_MAX   ((size_t)16 * 1024 * 1024)
#define MARK_BEGIN "# Hosts of this sandbox's network policy\n"
#define MARK_END   "# End of the hosts of the network policy\n"
#define CHUNK      ((size_t)4096)
#define BACKLOG    16
#define LISTEN_FD  3 /* of the relay */
#define READY_FD   4
#define FDS_FROM   16

static int dial_wall(void)
{
	static const uint8_t bytes[4] = SIGNER_ADDRESS;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(SIGNER_PORT)};
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(&to.sin_addr, bytes, sizeof(bytes));
	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	return take_fd(&fd);
}

/* Until either side ends: no message of this protocol is worth anything without its answer. */
static noreturn void pass_on(int visitor_fd)
{
	char chunk[CHUNK];
	int wall_fd = dial_wall();
	struct pollfd fds[] = {{.fd = visitor_fd, .events = POLLIN},
	                       {.fd = wall_fd, .events = POLLIN}};

	while (wall_fd >= 0 && poll(fds, ARRAY_SIZE(fds), -1) > 0)
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
			ssize_t n = fds[i].revents ? read(fds[i].fd, chunk, sizeof(chunk)) : 0;

			if (fds[i].revents &&
			    (n <= 0 || fd_write_all(fds[!i].fd, chunk, (size_t)n) < 0))
				_exit(0);
		}
	_exit(0);
}

/* Nothing else stays open: neither the host's pipes nor what an ssh inside could wait for. */
static int place_fds(int listen_fd, int ready_fd)
{
	const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int from[] = {null_fd, null_fd, null_fd, listen_fd, ready_fd};
	int high[ARRAY_SIZE(from)];

	for (size_t i = 0; i < ARRAY_SIZE(from); i++) /* away from where they go */
		high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FDS_FROM);
	for (size_t i = 0; i < ARRAY_SIZE(from); i++)
		if (high[i] < 0 || dup2(high[i], (int)i) < 0)
			return -errno;
	return syscall(SYS_close_range, (unsigned)ARRAY_SIZE(from), ~0U, 0) < 0 ? -errno : 0;
}

static noreturn void relay(int listen_fd, int ready_fd)
{
	(void)setsid();
	(void)prctl(PR_SET_NAME, "cloche-ssh");
	(void)signal(SIGCHLD, SIG_IGN); /* nobody waits for the children */
	(void)signal(SIGTERM, SIG_DFL);
	/* Here and not before: the listener's pid is to be this one's. */
	if (listen(listen_fd, BACKLOG) < 0 || place_fds(listen_fd, ready_fd) < 0 ||
	    write(READY_FD, "1", 1) != 1)
		_exit(1);
	(void)close(READY_FD);
	for (;;) {
		int fd = accept4(LISTEN_FD, NULL, NULL, SOCK_CLOEXEC);
		pid_t pid = fd >= 0 ? fork() : -1;

		if (pid == 0)
			pass_on(fd);
		if (fd >= 0)
			(void)close(fd);
		else if (errno != EINTR && errno != ECONNABORTED)
			(void)poll(NULL, 0, 100); /* short of fds or memory: not for ever */
	}
}

static int fill_address(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	memcpy(ret->sun_path, path, strlen(path) + 1);
	return 0;
}

/* 0: nobody listens. */
static pid_t find_relay(const struct sockaddr_un *at)
{
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);

	if (fd < 0 || connect(fd, (const struct sockaddr *)at, sizeof(*at)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return 0;
	return peer.uid == geteuid() && peer.pid > 1 ? peer.pid : 0;
}

static int start_relay(const struct sockaddr_un *at, struct err *err)
{
	auto_fd int fd = -1, read_fd = -1, write_fd = -1;
	int ready[2];
	char byte;
	pid_t pid;

	if (find_relay(at) > 0)
		return 0;
	if (unlink(at->sun_path) < 0 && errno != ENOENT)
		return result_error(err, errno, "cannot remove", at->sun_path);
	if (pipe2(ready, O_CLOEXEC) < 0)
		return result_error(err, errno, "cannot make a pipe for", at->sun_path);
	read_fd = ready[0];
	write_fd = ready[1];
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)at, sizeof(*at)) < 0 ||
	    chmod(at->sun_path, 0666) < 0)
		return result_error(err, errno, "cannot make the socket", at->sun_path);
	pid = fork();
	if (pid == 0)
		relay(fd, write_fd);
	(void)close(take_fd(&write_fd));
	if (pid < 0 || read(read_fd, &byte, 1) != 1)
		return result_error(err, pid < 0 ? errno : ECHILD, "cannot start what listens on",
		                    at->sun_path);
	return 0;
}

static int stop_relay(const struct sockaddr_un *at, struct err *err)
{
	pid_t pid = find_relay(at);

	if (pid > 0)
		(void)kill(pid, SIGKILL);
	if (unlink(at->sun_path) < 0 && errno != ENOENT && errno != ENOTDIR)
		return result_error(err, errno, "cannot remove", at->sun_path);
	return 0;
}

/* What somebody else has in that file stays. */
static int put_hosts(const struct start *s, const struct buf *hosts, struct err *err)
{
	const struct start file = {.path = s->path2, .flags = s->flags, .mode = s->mode};
	auto_call(buf_done) struct buf text = BUF_INIT(FILE_MAX);
	auto_fd int fd = -1;
	struct stat st;
	int r = files_open(s->path2, &fd, &st, err);
	bool had;

	if (r == 0 && (r = files_read_all(fd, &text)) < 0)
		return result_error(err, -r, "cannot read", s->path2);
	if (r < 0 && r != -ENOENT && r != -ENOTDIR)
		return r;
	had = files_drop_block(&text, MARK_BEGIN, MARK_END);
	if (hosts->len == 0 && (!had || text.len > 0))
		return had ? files_put(&file, text.data, text.len, err) : 0;
	if (hosts->len == 0)
		return unlink(s->path2) < 0 ? result_error(err, errno, "cannot remove", s->path2)
		                            : 0;
	if (text.len > 0 && text.data[text.len - 1] != '\n')
		r = buf_append_str(&text, "\n");
	else
		r = 0;
	if (r < 0 || buf_printf(&text, MARK_BEGIN "%s" MARK_END, buf_str(hosts)) < 0)
		return result_error(err, EFBIG, "there is no room in", s->path2);
	return files_put(&file, text.data, text.len, err);
}

int op_signer(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	auto_call(buf_done) struct buf hosts = BUF_INIT(FILE_MAX / 2);
	struct sockaddr_un at;
	int r = files_read_all(STDIN_FILENO, &hosts);

	if (r == 0)
		r = fill_address(s->path, &at);
	if (r < 0)
		return result_error(err, -r, "cannot read the data for", s->path2);
	r = put_hosts(s, &hosts, err);
	if (r == 0)
		r = hosts.len > 0 ? start_relay(&at, err) : stop_relay(&at, err);
	return r;
}
