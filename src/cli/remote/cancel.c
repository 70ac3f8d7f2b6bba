// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: the signals are blocked in every thread, and one thread waits for them. It
 * never waits for the daemon: a request is made by a thread of its own that nobody waits for, so
 * that the next Ctrl-C is heard even if no answer comes. The connection is closed through a
 * duplicate of its fd: should the client have replaced it meanwhile, no other file is hit.
 */
#include "cli/remote/cancel.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define INTERRUPTS_MAX 2 /* a first one just before a blocking system call may be lost */

enum phase {
	PHASE_PROMPT,
	PHASE_WAITS,
	PHASE_RUNS,
};

struct cancel {
	pthread_t thread;
	int wake_fd;
	pthread_mutex_t lock; /* of what follows */
	enum phase phase;
	unsigned n_interrupts; /* of this call */
	bool is_let_go, is_stopping;
	int signo;
	const struct remote *remote; /* the caller's; what is read of it does not change */
	char *sandbox, *context;
	int call_fd;
};

struct request { /* owned by the thread that makes it */
	struct remote *remote;
	char *path;
};

static void request_free(struct request *q)
{
	remote_close(q->remote);
	free(q->path);
	free(q);
}

/* A failure is not told: the call may have just ended by itself. */
static void *send_request(void *arg)
{
	struct request *q = arg;
	struct err err;

	(void)!remote_call(q->remote, "POST", q->path, NULL, NULL, &err);
	request_free(q);
	return NULL;
}

static void ask(const struct cancel *c, const char *verb)
{
	struct request *q = xnew0(struct request);
	pthread_t thread;
	struct err err;

	q->path = remote_path("sandboxes", c->sandbox, "contexts", c->context, verb);
	if (remote_open_again(c->remote, &q->remote, &err) < 0 ||
	    pthread_create(&thread, NULL, send_request, q) != 0)
		request_free(q);
	else
		(void)pthread_detach(thread);
}

static void let_go(struct cancel *c)
{
	c->is_let_go = true;
	(void)shutdown(c->call_fd, SHUT_RDWR);
}

static void wake(const struct cancel *c)
{
	(void)!eventfd_write(c->wake_fd, 1);
}

static void on_interrupt_of_call(struct cancel *c, unsigned count)
{
	if (count <= INTERRUPTS_MAX)
		ask(c, "interrupt");
	if (count == INTERRUPTS_MAX)
		(void)fputs("cloche: if it does not stop: Ctrl-C once more restarts the "
		            "interpreter, and its variables are gone\n",
		            stderr);
	if (count == INTERRUPTS_MAX + 1)
		ask(c, "restart");
	if (count > INTERRUPTS_MAX + 1)
		let_go(c);
}

static void on_interrupt(struct cancel *c)
{
	switch (c->phase) {
	case PHASE_PROMPT:
		wake(c);
		break;
	case PHASE_WAITS:
		let_go(c);
		break;
	case PHASE_RUNS:
		on_interrupt_of_call(c, ++c->n_interrupts);
		break;
	}
}

static void on_end(struct cancel *c, int signo)
{
	c->signo = signo;
	if (c->phase != PHASE_PROMPT)
		let_go(c);
	wake(c);
}

static void fill_set(sigset_t *set)
{
	(void)sigemptyset(set);
	(void)sigaddset(set, SIGINT);
	(void)sigaddset(set, SIGTERM);
	(void)sigaddset(set, SIGHUP);
	(void)sigaddset(set, SIGQUIT);
	(void)sigaddset(set, SIGUSR1); /* ours, to end the thread */
}

static void *wait_for_signals(void *arg)
{
	struct cancel *c = arg;
	bool is_stopping = false;
	sigset_t set;
	int signo;

	(void)sigfillset(&set); /* what the terminal has to say is for the thread that reads it */
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	fill_set(&set);
	while (!is_stopping) {
		if (sigwait(&set, &signo) != 0)
			continue;
		(void)pthread_mutex_lock(&c->lock);
		is_stopping = c->is_stopping;
		if (signo == SIGINT)
			on_interrupt(c);
		else if (signo != SIGUSR1)
			on_end(c, signo);
		(void)pthread_mutex_unlock(&c->lock);
	}
	return NULL;
}

int cancel_start(struct cancel **ret, struct err *err)
{
	struct cancel *c = xnew0(struct cancel);
	sigset_t set;
	int r;

	fill_set(&set);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	(void)pthread_mutex_init(&c->lock, NULL);
	c->call_fd = -1;
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = c->wake_fd < 0 ? errno : pthread_create(&c->thread, NULL, wait_for_signals, c);
	if (r != 0) {
		auto_closep(&c->wake_fd);
		free(c);
		return err_set(err, ERR_INTERNAL, r, "cannot watch for signals");
	}
	*ret = c;
	return 0;
}

static void forget_call(struct cancel *c)
{
	c->phase = PHASE_PROMPT;
	c->n_interrupts = 0;
	c->is_let_go = false;
	c->remote = NULL;
	free(c->sandbox);
	free(c->context);
	c->sandbox = c->context = NULL;
	auto_closep(&c->call_fd);
	c->call_fd = -1;
}

void cancel_stop(struct cancel *c)
{
	if (!c)
		return;
	(void)pthread_mutex_lock(&c->lock);
	c->is_stopping = true;
	(void)pthread_mutex_unlock(&c->lock);
	(void)pthread_kill(c->thread, SIGUSR1);
	(void)pthread_join(c->thread, NULL);
	forget_call(c);
	(void)close(c->wake_fd);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}

void cancel_call(struct cancel *c, const struct remote *remote, const char *sandbox,
                 const char *context)
{
	(void)pthread_mutex_lock(&c->lock);
	forget_call(c);
	c->phase = PHASE_WAITS;
	c->remote = remote;
	c->sandbox = xstrdup(sandbox);
	c->context = xstrdup(context);
	c->call_fd = fcntl(http_client_fd(remote_client(unconst(remote))), F_DUPFD_CLOEXEC, 3);
	if (c->signo) /* came before there was anything to let go of */
		let_go(c);
	(void)pthread_mutex_unlock(&c->lock);
}

void cancel_call_runs(struct cancel *c)
{
	(void)pthread_mutex_lock(&c->lock);
	c->phase = PHASE_RUNS;
	(void)pthread_mutex_unlock(&c->lock);
}

bool cancel_call_ended(struct cancel *c)
{
	bool was_let_go;

	(void)pthread_mutex_lock(&c->lock);
	was_let_go = c->is_let_go;
	forget_call(c);
	(void)pthread_mutex_unlock(&c->lock);
	return was_let_go;
}

int cancel_fd(const struct cancel *c)
{
	return c->wake_fd;
}

void cancel_clear(struct cancel *c)
{
	eventfd_t count;

	(void)!eventfd_read(c->wake_fd, &count);
}

int cancel_signal(struct cancel *c)
{
	int signo;

	(void)pthread_mutex_lock(&c->lock);
	signo = c->signo;
	(void)pthread_mutex_unlock(&c->lock);
	return signo;
}
