// SPDX-License-Identifier: Apache-2.0
/*
 * Sending is an ioctl that writes the stream into a pipe; a child calls it. The streams are full,
 * not incremental: extents that another subvolume shares are named by CLONE commands. Receiving is
 * `btrfs receive`, confined to the directory. It reads what the kernel wrote; nobody in a sandbox
 * can shape the stream's structure.
 */
#include "backup/subvolume.h"

#include "base/fd.h"
#include "base/parse.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define PIPE_BYTES (1 << 20)

static void put_uuid(const uint8_t bytes[16], char text[UUID_SIZE])
{
	static const uint8_t none[16];
	char *at = text;

	text[0] = '\0';
	if (memcmp(bytes, none, sizeof(none)) == 0)
		return;
	for (size_t i = 0; i < 16; i++)
		at += snprintf(at, (size_t)(text + UUID_SIZE - at), "%s%02x",
		               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
}

int subvolume_info(int fd, struct subvolume_info *ret, struct err *err)
{
	struct btrfs_ioctl_get_subvol_info_args args = {0};

	if (ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &args) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot ask for a subvolume");
	*ret = (struct subvolume_info){.id = args.treeid, .transid = args.ctransid};
	put_uuid(args.uuid, ret->uuid);
	put_uuid(args.parent_uuid, ret->parent_uuid);
	put_uuid(args.received_uuid, ret->stream_uuid);
	if (!ret->stream_uuid[0])
		memcpy(ret->stream_uuid, ret->uuid, UUID_SIZE);
	return 0;
}

/* Runs in the child. Returns its exit status, an errno. */
static int send_all(int fd, int pipe_fd, uint64_t shared_id)
{
	__u64 sources[1] = {shared_id};
	struct btrfs_ioctl_send_args args = {.send_fd = pipe_fd,
	                                     .clone_sources_count = shared_id != 0,
	                                     .clone_sources = shared_id ? sources : NULL};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	return ioctl(fd, BTRFS_IOC_SEND, &args) < 0 ? errno & 0xff : 0;
}

static int wait_for(pid_t pid, int *ret_status)
{
	while (waitpid(pid, ret_status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

int subvolume_send(int fd, uint64_t shared_id,
                   int (*fn)(const void *data, size_t len, void *arg, struct err *err), void *arg,
                   struct err *err)
{
	static char data[PIPE_BYTES];
	int fds[2], status, r = 0;
	ssize_t n = 0;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a pipe");
	(void)fcntl(fds[0], F_SETPIPE_SZ, PIPE_BYTES);
	pid = fork();
	if (pid == 0) {
		(void)close(fds[0]);
		_exit(send_all(fd, fds[1], shared_id));
	}
	(void)close(fds[1]);
	while (pid > 0 && r == 0 && (n = read(fds[0], data, sizeof(data))) != 0) {
		if (n > 0)
			r = fn(data, (size_t)n, arg, err);
		else if (errno != EINTR)
			r = err_set(err, ERR_INTERNAL, errno, "cannot read a stream");
	}
	(void)close(fds[0]);
	if (pid < 0 || wait_for(pid, &status) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot run a child");
	if (r < 0)
		return r;
	return status == 0 ? 0
	                   : err_set(err, ERR_INTERNAL, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
	                             "cannot read a frozen subvolume");
}

static void run_receive(const char *dir, int stream_fd, int words_fd)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)dup2(stream_fd, STDIN_FILENO);
	(void)dup2(words_fd, STDOUT_FILENO);
	(void)dup2(words_fd, STDERR_FILENO);
	(void)execlp("btrfs", "btrfs", "receive", "-q", "-e", "-C", dir, (char *)NULL);
	_exit(127);
}

/* The last output of the program, on one line. */
static void read_words(int fd, char *text, size_t size)
{
	ssize_t n = read(fd, text, size - 1);

	text[n > 0 ? n : 0] = '\0';
	for (char *p = text; *p; p++)
		if (*p == '\n')
			*p = p[1] ? ' ' : '\0';
}

static int feed(int pipe_fd,
                int (*fn)(const void **ret, size_t *ret_len, void *arg, struct err *err), void *arg,
                struct err *err)
{
	const void *data;
	size_t len;
	int r;

	while ((r = fn(&data, &len, arg, err)) > 0) {
		r = fd_write_all(pipe_fd, data, len);
		if (r == -EPIPE)
			return 0; /* its exit says why */
		if (r < 0)
			return err_set(err, ERR_INTERNAL, -r, "cannot write a stream");
	}
	return r;
}

int subvolume_receive(const char *dir,
                      int (*fn)(const void **ret, size_t *ret_len, void *arg, struct err *err),
                      void *arg, struct err *err)
{
	int fds[2], words[2], status, r;
	char said[200];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a pipe");
	if (pipe2(words, O_CLOEXEC) < 0) {
		(void)close(fds[0]);
		(void)close(fds[1]);
		return err_set(err, ERR_INTERNAL, errno, "cannot make a pipe");
	}
	(void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES);
	pid = fork();
	if (pid == 0)
		run_receive(dir, fds[0], words[1]);
	(void)close(fds[0]);
	(void)close(words[1]);
	r = pid < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot run btrfs")
	            : feed(fds[1], fn, arg, err);
	(void)close(fds[1]);
	read_words(words[0], said, sizeof(said));
	(void)close(words[0]);
	if (pid < 0)
		return r;
	if (wait_for(pid, &status) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot wait for btrfs");
	if (r == 0 && status != 0)
		r = err_set(err, ERR_INTERNAL, 0, "btrfs receive failed: %s",
		            WIFEXITED(status) && WEXITSTATUS(status) == 127
		                    ? "there is no btrfs; install btrfs-progs"
		                    : said);
	return r;
}

static int read_uuid(const char *text, char bytes[16])
{
	for (size_t i = 0; i < 16; i++, text += 2) {
		uint64_t byte;

		text += *text == '-';
		if (parse_hex(text, 2, &byte) < 0)
			return -EINVAL;
		bytes[i] = (char)byte;
	}
	return 0;
}

int subvolume_name(int fd, const char *uuid, uint64_t transid)
{
	struct btrfs_ioctl_received_subvol_args name = {.stransid = transid};
	__u64 flags = 0;
	int r = read_uuid(uuid, name.uuid);

	if (r == 0 && (ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) < 0 ||
	               ioctl(fd, BTRFS_IOC_SET_RECEIVED_SUBVOL, &name) < 0))
		r = -errno;
	flags = BTRFS_SUBVOL_RDONLY;
	if (r == 0 && ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) < 0)
		r = -errno;
	return r;
}

int subvolume_settle(int fd, bool is_read_only)
{
	struct btrfs_ioctl_received_subvol_args none = {0};
	__u64 flags = 0;

	if (ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) < 0 ||
	    ioctl(fd, BTRFS_IOC_SET_RECEIVED_SUBVOL, &none) < 0)
		return -errno;
	flags = BTRFS_SUBVOL_RDONLY;
	return is_read_only && ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) < 0 ? -errno : 0;
}
