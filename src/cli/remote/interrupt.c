// SPDX-License-Identifier: Apache-2.0
#include "cli/remote/interrupt.h"

#include "base/clock.h"
#include "cli/term/exit_status.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#define GRACE_MS    2000 /* from TERM to KILL */
#define LEAVE_AFTER 3    /* Ctrl-C this often means now, whatever stays behind */

struct interrupt {
	pthread_t thread;
	int pipe_fds[2];      /* a byte a signal, by the handler; a zero to stop */
	pthread_mutex_t lock; /* of what follows */
	int first_signal;
	struct remote *remote; /* NULL until aimed; used under the lock */
	char *sandbox, *exec_id;
	unsigned n_interrupts;
	uint64_t kill_at_us; /* 0 = not wanted */
};

/* The handler's; there is one struct interrupt at a time. It runs on the signal thread, also while
 * that waits for a daemon which does not answer: the last Ctrl-C must work even then. */
static int handler_fd = -1;
static volatile sig_atomic_t handler_interrupts;

static void on_signal(int signo)
{
	int saved = errno;
	char byte = (char)signo;

	if (signo == SIGINT && ++handler_interrupts >= LEAVE_AFTER)
		_exit(EXIT_SIGNAL + SIGINT);
	if (write(handler_fd, &byte, 1) < 0)
		_exit(EXIT_CLOCHE);
	errno = saved;
}

/* Sends it; a failure is not told, for the command may have just ended by itself. */
static void send_signal(struct interrupt *i, int signo, bool tree)
{
	auto_json json_t *body = json_object();
	auto_free char *path = NULL;
	struct err err;

	if (!i->remote)
		return;
	path = remote_path("sandboxes", i->sandbox, "execs", i->exec_id, "signal");
	(void)json_object_set_new(body, "signal", json_integer(signo));
	(void)json_object_set_new(body, "tree", json_boolean(tree));
	if (remote_call(i->remote, "POST", path, body, NULL, &err) < 0)
		return;
}

static void pass_on(struct interrupt *i, int signo)
{
	switch (signo) {
	case SIGINT:
		if (++i->n_interrupts == 1 && !i->remote)
			(void)fprintf(stderr,
			              "\ncloche: the sandbox is still being made, and is removed "
			              "when it is there; to end now, press Ctrl-C twice more\n");
		else if (i->n_interrupts == 1)
			send_signal(i, SIGINT, /* tree= */ false);
		else
			send_signal(i, SIGKILL, /* tree= */ true);
		break;
	case SIGQUIT:
		send_signal(i, SIGQUIT, /* tree= */ false);
		break;
	default:
		send_signal(i, SIGTERM, /* tree= */ true);
		i->kill_at_us = clock_steady_us() + GRACE_MS * 1000;
		break;
	}
}

static int wait_ms(const struct interrupt *i)
{
	uint64_t now = clock_steady_us();

	if (i->kill_at_us == 0)
		return -1;
	return i->kill_at_us <= now ? 0 : (int)((i->kill_at_us - now) / 1000 + 1);
}

static void fill_set(sigset_t *set)
{
	(void)sigemptyset(set);
	(void)sigaddset(set, SIGINT);
	(void)sigaddset(set, SIGTERM);
	(void)sigaddset(set, SIGHUP);
	(void)sigaddset(set, SIGQUIT);
}

/* Waits for a byte of the pipe, or until something is due: the byte, or 0 for neither. -1: stop. */
static int next_signal(struct interrupt *i, int timeout_ms)
{
	struct pollfd fd = {i->pipe_fds[0], POLLIN, 0};
	char byte;

	if (poll(&fd, 1, timeout_ms) <= 0 || read(i->pipe_fds[0], &byte, 1) != 1)
		return 0;
	return byte ? byte : -1;
}

static void *wait_for_signals(void *arg)
{
	struct interrupt *i = arg;
	int timeout = -1;
	sigset_t set;
	int signo;

	fill_set(&set);
	(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	while ((signo = next_signal(i, timeout)) >= 0) {
		(void)pthread_mutex_lock(&i->lock);
		if (signo > 0 && i->first_signal == 0)
			i->first_signal = signo;
		if (signo > 0)
			pass_on(i, signo);
		if (i->kill_at_us && clock_steady_us() >= i->kill_at_us) {
			i->kill_at_us = 0;
			send_signal(i, SIGKILL, /* tree= */ true);
		}
		timeout = wait_ms(i);
		(void)pthread_mutex_unlock(&i->lock);
	}
	return NULL;
}

static void catch_signals(const sigset_t *set)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t blocked = *set;

	/* The window's size is attach.c's to read, so it must not be lost on the thread. */
	(void)sigaddset(&blocked, SIGWINCH);
	(void)pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	for (int signo = 1; signo < NSIG; signo++)
		if (sigismember(set, signo) == 1)
			(void)sigaction(signo, &action, NULL);
}

int interrupt_start(struct interrupt **ret, struct err *err)
{
	struct interrupt *i = xnew0(struct interrupt);
	sigset_t set;
	int r;

	if (pipe2(i->pipe_fds, O_CLOEXEC) < 0) {
		r = errno;
		free(i);
		return err_set(err, ERR_INTERNAL, r, "cannot watch for signals");
	}
	(void)pthread_mutex_init(&i->lock, NULL);
	handler_fd = i->pipe_fds[1];
	fill_set(&set);
	catch_signals(&set);
	r = pthread_create(&i->thread, NULL, wait_for_signals, i);
	if (r != 0) {
		(void)close(i->pipe_fds[0]);
		(void)close(i->pipe_fds[1]);
		free(i);
		return err_set(err, ERR_INTERNAL, r, "cannot watch for signals");
	}
	*ret = i;
	return 0;
}

void interrupt_aim(struct interrupt *i, const struct remote *remote, const char *sandbox,
                   const char *exec_id)
{
	struct err err;

	(void)pthread_mutex_lock(&i->lock);
	if (!i->remote && remote_open_again(remote, &i->remote, &err) == 0) {
		i->sandbox = xstrdup(sandbox);
		i->exec_id = xstrdup(exec_id);
		if (i->first_signal)
			send_signal(i, i->first_signal, /* tree= */ true);
	}
	(void)pthread_mutex_unlock(&i->lock);
}

int interrupt_signal(struct interrupt *i)
{
	int signo;

	(void)pthread_mutex_lock(&i->lock);
	signo = i->first_signal;
	(void)pthread_mutex_unlock(&i->lock);
	return signo;
}

void interrupt_stop(struct interrupt *i)
{
	static const char stop = 0;

	if (!i)
		return;
	if (write(i->pipe_fds[1], &stop, 1) == 1)
		(void)pthread_join(i->thread, NULL);
	(void)close(i->pipe_fds[0]);
	(void)close(i->pipe_fds[1]);
	(void)pthread_mutex_destroy(&i->lock);
	remote_close(i->remote);
	free(i->sandbox);
	free(i->exec_id);
	free(i);
}
