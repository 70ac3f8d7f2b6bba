// SPDX-License-Identifier: Apache-2.0
/*
 * sudo [-E] [-n] [-H] [-u USER] [--] [VAR=value …] command [arguments]
 *
 * The command gets this process's own stdin, stdout, stderr and working directory, so there is
 * nothing to copy; what remains is to pass on signals and to end as the command ended.
 */
#include "agent/sudo/sudo.h"

#include "agent/sudo/sudo_socket.h"
#include "base/fd.h"
#include "proto/pack.h"
#include "proto/signer.h"
#include "proto/start.h"
#include "proto/trust.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

extern char **environ;

#define EXIT_TROUBLE 1 /* as sudo's own errors */

/* Kept without -E: what a terminal, a package manager and the exec's tree need. */
static const char *const kept[] = {"TERM",    "LANG", "CLOCHE_EXEC", "DEBIAN_FRONTEND",
                                   "COLUMNS", "LINES"};

static int complain(const char *what)
{
	(void)fprintf(stderr, "sudo: %s\n", what);
	return EXIT_TROUBLE;
}

/* Whatever its name: it tells where the certificates are that the network wall needs, or the
 * signer. */
static bool is_of_network(const char *word)
{
	const char *value = strchr(word, '=') + 1;

	return strcmp(value, TRUST_BUNDLE) == 0 || strcmp(value, TRUST_OWN) == 0 ||
	       strcmp(value, SIGNER_SOCKET) == 0;
}

static bool is_kept(const char *word)
{
	if (is_of_network(word))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		size_t len = strlen(kept[i]);

		if (strncmp(word, kept[i], len) == 0 && word[len] == '=')
			return true;
	}
	return false;
}

static void add_word(char ***words, size_t *n, const char *word)
{
	*words = xrealloc(*words, (*n + 2) * sizeof(char *));
	(*words)[(*n)++] = xstrdup(word);
	(*words)[*n] = NULL;
}

/* Options and assignments; gives the index of the command, or -1. */
static int read_options(int argc, char *argv[], struct sudo_request *r, const char **ret_user)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		if (strcmp(argv[i], "-u") == 0 && i + 1 < argc)
			*ret_user = argv[++i];
		else if (strcmp(argv[i], "-E") == 0)
			r->has_whole_env = true;
		else if (strcmp(argv[i], "-n") != 0 && strcmp(argv[i], "-H") != 0)
			return -1;
	}
	for (char **word = environ; *word; word++)
		if (strchr(*word, '=') && **word != '=' && (r->has_whole_env || is_kept(*word)))
			add_word(&r->env, &r->envc, *word);
	for (; i < argc && strchr(argv[i], '=') && argv[i][0] != '='; i++)
		add_word(&r->env, &r->envc, argv[i]);
	return i < argc ? i : -1;
}

static int connect_sudo_socket(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(SUDO_SOCKET_NAME));
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path + 1, SUDO_SOCKET_NAME, sizeof(SUDO_SOCKET_NAME) - 1);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, len) < 0)
		return -errno;
	return take_fd(&fd);
}

static int send_request(int fd, const struct sudo_request *r)
{
	auto_call(buf_done) struct buf body = BUF_INIT(SUDO_REQUEST_MAX);
	auto_call(buf_done) struct buf head = BUF_INIT(4);
	auto_fd int cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct pack p = {.out = &head};
	int fds[SUDO_SOCKET_FDS] = {0, 1, 2, cwd};
	int status = sudo_request_encode(r, &body);

	if (status < 0 || cwd < 0)
		return status < 0 ? status : -errno;
	pack_u32(&p, (uint32_t)body.len);
	if (fd_send(fd, head.data, head.len, fds, SUDO_SOCKET_FDS) != (ssize_t)head.len)
		return -EPIPE;
	return fd_write_all(fd, body.data, body.len);
}

static int sudo_socket_fd = -1;

/* One byte on a stream socket: async-signal-safe, and whole or not at all. */
static void forward(int signo)
{
	unsigned char byte = (unsigned char)signo;
	int saved = errno;

	(void)send(sudo_socket_fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	errno = saved;
}

static void forward_signals(int fd)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
	struct sigaction action = {.sa_handler = forward, .sa_flags = SA_RESTART};

	sudo_socket_fd = fd;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		(void)sigaction(signals[i], &action, NULL);
}

static int await_end(int fd)
{
	auto_call(buf_done) struct buf in = BUF_INIT(4096);
	struct unpack u;
	auto_free char *message = NULL;
	uint32_t value;
	uint8_t how;
	ssize_t n;
	char *room;

	while (buf_reserve(&in, MIN((size_t)1024, buf_room(&in)), &room) == 0) {
		n = read(fd, room, MIN((size_t)1024, buf_room(&in)));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		buf_commit(&in, (size_t)n);
	}
	u = (struct unpack){.data = (const unsigned char *)buf_str(&in), .len = in.len};
	how = unpack_u8(&u);
	value = unpack_u32(&u);
	message = unpack_str(&u, 1024);
	if (unpack_end(&u) < 0)
		return complain("the sandbox's agent gave no answer");
	if (how == EXIT_FAILED) {
		(void)complain(message);
		return value == ENOENT ? 127 : EXIT_TROUBLE;
	}
	return how == EXIT_SIGNAL ? 128 + (int)value : (int)value;
}

int sudo_main(int argc, char *argv[])
{
	auto_call(sudo_request_done) struct sudo_request r = {0};
	const char *user = "root";
	auto_fd int fd = -1;
	int first = read_options(argc, argv, &r, &user), status;

	if (first < 0)
		return complain(
			"usage: sudo [-E] [-n] [-u USER] [VAR=value] [--] command [argument]");
	r.user = xstrdup(user);
	for (int i = first; i < argc; i++)
		add_word(&r.argv, &r.argc, argv[i]);
	fd = connect_sudo_socket();
	if (fd < 0)
		return complain("this is not a cloche sandbox, or its agent is busy");
	status = send_request(fd, &r);
	if (status == -E2BIG)
		return complain("the command and its environment are too long");
	forward_signals(fd);  /* not before: a signal's byte must not come between the request's */
	return await_end(fd); /* a refused request has an answer too */
}
