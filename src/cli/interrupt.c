// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include "base/clock.h"
#include "cli/cli.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#define GRACE_MS    2000 /* from TERM to KILL */
#define LEAVE_AFTER 3    /* Ctrl-C this often means now, whatever stays behind */

struct interrupt {
	pthread_t thread;
	int signal_fd, stop_fd;
	pthread_mutex_t lock; /* of what follows */
	int first_signal;
	struct remote *remote; /* NULL until aimed; used by one thread at a time, under the lock */
	char *sandbox, *exec_id;
	unsigned n_interrupts;
	uint64_t kill_at_us; /* 0 = not wanted */
};

/* Sends it; a failure is not told, for the command may have just ended by itself. */
static void send_signal(struct interrupt *i, int signo, bool tree)
{
	auto_json json_t *body = json_object();
	auto_free char *path = NULL;
	struct err err;

	if (!i->remote)
		return;
	path = remote_path("sandboxes", i->sandbox, "execs", i->exec_id, "signal", NULL);
	(void)json_object_set_new(body, "signal", json_integer(signo));
	(void)json_object_set_new(body, "tree", json_boolean(tree));
	if (remote_call(i->remote, "POST", path, body, NULL, &err) < 0)
		return;
}

static void pass_on(struct interrupt *i, int signo)
{
	switch (signo) {
	case SIGINT:
		if (++i->n_interrupts >= LEAVE_AFTER)
			_exit(EXIT_SIGNAL + SIGINT);
		if (i->n_interrupts == 1)
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

static void on_signal(struct interrupt *i)
{
	struct signalfd_siginfo info;

	if (read(i->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (i->first_signal == 0)
		i->first_signal = (int)info.ssi_signo;
	pass_on(i, (int)info.ssi_signo);
}

static int wait_ms(const struct interrupt *i)
{
	uint64_t now = clock_steady_us();

	if (i->kill_at_us == 0)
		return -1;
	return i->kill_at_us <= now ? 0 : (int)((i->kill_at_us - now) / 1000 + 1);
}

static void *wait_for_signals(void *arg)
{
	struct interrupt *i = arg;
	struct pollfd fds[] = {{i->signal_fd, POLLIN, 0}, {i->stop_fd, POLLIN, 0}};
	int timeout = -1;

	for (;;) {
		int n = poll(fds, ARRAY_SIZE(fds), timeout);

		if (n > 0 && fds[1].revents)
			return NULL;
		(void)pthread_mutex_lock(&i->lock);
		if (n > 0)
			on_signal(i);
		if (i->kill_at_us && clock_steady_us() >= i->kill_at_us) {
			i->kill_at_us = 0;
			send_signal(i, SIGKILL, /* tree= */ true);
		}
		timeout = wait_ms(i);
		(void)pthread_mutex_unlock(&i->lock);
	}
}

int interrupt_start(struct interrupt **ret, struct err *err)
{
	struct interrupt *i = xnew0(struct interrupt);
	sigset_t set, window;
	int r;

	/* The window's size is attach.c's to read, so it must not be lost on this thread. */
	(void)sigemptyset(&window);
	(void)sigaddset(&window, SIGWINCH);
	(void)pthread_sigmask(SIG_BLOCK, &window, NULL);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGQUIT);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	(void)pthread_mutex_init(&i->lock, NULL);
	i->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	i->stop_fd = eventfd(0, EFD_CLOEXEC);
	r = i->signal_fd < 0 || i->stop_fd < 0
	            ? errno
	            : pthread_create(&i->thread, NULL, wait_for_signals, i);
	if (r != 0) {
		auto_closep(&i->signal_fd);
		auto_closep(&i->stop_fd);
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
	uint64_t one = 1;

	if (!i)
		return;
	if (write(i->stop_fd, &one, sizeof(one)) == sizeof(one))
		(void)pthread_join(i->thread, NULL);
	(void)close(i->signal_fd);
	(void)close(i->stop_fd);
	(void)pthread_mutex_destroy(&i->lock);
	remote_close(i->remote);
	free(i->sandbox);
	free(i->exec_id);
	free(i);
}
