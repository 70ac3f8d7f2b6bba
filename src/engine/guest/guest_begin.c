// SPDX-License-Identifier: Apache-2.0
/*
 * Starts a guest. start() makes its host objects (start_steps.c), lets the child run, and waits on
 * the loop for one of three things on the status pipe: the agent's "1" (it serves), a struct err of
 * a failed step, or the end. The broker never blocks. If a start fails and is worth a second try
 * (guest_kind.h), the guest is removed and started once more.
 */
#include "engine/guest/guest.h"

#include "base/log.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/guest_kind.h"
#include "engine/linux/namespaces.h"

#include <string.h>
#include <sys/epoll.h>

void guest_fail_start(struct guest *g, const struct err *err)
{
	if (g->kind->retry && g->kind->retry(g, err)) {
		g->is_again = true;
		g->is_discarded = !g->spec.is_resumed;
	}
	g->failure = *err;
	guest_remove(g);
}

void guest_on_exit(struct loop *loop, int wait_status, void *arg)
{
	struct guest *g = arg;
	struct err err = {0};

	(void)loop;
	g->child = NULL;
	if (!guest_expects(g, GUEST_EXIT))
		return;
	if (g->state == GUEST_DYING) {
		guest_proceed_removal(g);
		return;
	}
	if (g->state == GUEST_RUNNING) {
		guest_move(g, GUEST_ENDED);
		take_ptr(g->ended)(g, wait_status, g->arg);
		return;
	}
	err_set(&err, ERR_INTERNAL, 0, "the sandbox's agent ended before it served");
	if (!g->worker)
		guest_fail_start(g, &err);
	else if (g->failure.code == ERR_NONE)
		g->failure = err; /* guest_on_cloned() tells */
}

static void on_status(struct loop *loop, uint32_t events, void *arg)
{
	struct guest *g = arg;
	struct err err = {0};
	ssize_t n = read(g->status_fd, &err, sizeof(err));

	(void)loop;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	loop_io_removep(&g->status_io);
	close_fd(&g->status_fd);
	if (!guest_expects(g, GUEST_STATUS))
		return;
	if (n == sizeof(err)) {
		err.message[sizeof(err.message) - 1] = err.hint[sizeof(err.hint) - 1] = '\0';
		err.field[sizeof(err.field) - 1] = '\0';
		guest_fail_start(g, &err);
	} else if (n == 1) {
		if (g->kind->serves)
			g->kind->serves(g);
		guest_move(g, GUEST_RUNNING);
		log_debug("jail.serves", "id=%s pid=%d", g->spec.id, (int)g->pid);
		take_ptr(g->started)(g, NULL, g->arg);
		disk_snapshot_on_start(g);
	}
	/* After the end of the pipe the child exits, and its status tells why. */
}

static void on_start_timeout(struct guest *g)
{
	struct err err = {0};

	err_set(&err, ERR_TIMEOUT, ETIMEDOUT, "the sandbox's agent did not serve in time");
	guest_fail_start(g, &err);
}

/* It has its orders. */
static int await_guest(struct guest *g, struct err *err)
{
	int r = loop_io_add(g->host->loop, g->status_fd, EPOLLIN, on_status, g, &g->status_io);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the jail's process");
	guest_arm(g, g->kind->start_max_us(&g->spec), on_start_timeout);
	return 0;
}

static int launch(struct guest *g, struct err *err)
{
	int r = guest_launch(g, guest_on_exit, guest_fail_start, err);

	return r == 0 ? await_guest(g, err) : r;
}

/* Returns 1 if it waits for the next copy. */
static int launch_on(struct guest *g, struct err *err)
{
	int r;

	if (!g->start)
		return launch(g, err);
	r = guest_go_on(g, err);
	return r == 0 ? await_guest(g, err) : r;
}

void guest_on_cloned(struct guest *g, const struct err *failure)
{
	struct err err = {0};

	if (g->failure.code != ERR_NONE) /* of what was done meanwhile */
		err = g->failure;
	else if (failure)
		err = *failure;
	else if (launch_on(g, &err) >= 0)
		return;
	guest_fail_start(g, &err);
}

/* A failure is reported only when the layer is ready, since it cannot be removed before. */
static void launch_meanwhile(struct guest *g)
{
	if (g->worker)
		(void)!launch(g, &g->failure);
}

/* The rest is made while the layer is copied. But first all starts of the same turn begin, so that
 * their layers are copied together. */
static int launch_from(struct guest *g, struct err *err)
{
	int r = disk_snapshot_clone(g, guest_on_cloned, err);

	if (r != 0)
		return r < 0 ? r : launch(g, err);
	guest_arm(g, 0, launch_meanwhile);
	return 0;
}

static void on_copy(struct guest *g, const struct err *failure)
{
	struct err err = {0};

	if (failure)
		guest_fail_start(g, failure);
	else if (launch_from(g, &err) < 0)
		guest_fail_start(g, &err);
}

static int begin(struct guest *g, struct err *err)
{
	if (!g->spec.snapshot[0])
		return launch(g, err);
	return g->spec.with_memory && g->kind->prepare ? g->kind->prepare(g, on_copy, err)
	                                               : launch_from(g, err);
}

/* Called when nothing is left of the id's last guest. */
static void begin_after(void *arg)
{
	struct guest *g = arg;
	struct err err = {0};

	g->last = NULL;
	if (g->state != GUEST_WAITING) { /* it was killed meanwhile */
		guest_proceed_removal(g);
		return;
	}
	guest_move(g, GUEST_STARTING);
	if (begin(g, &err) < 0)
		guest_fail_start(g, &err);
}

void guest_start_again(struct guest *g)
{
	struct err err = {0};

	close_fd(&g->dir_fd);
	close_fd(&g->status_fd);
	close_fd(&g->machine_view_fd);
	g->failure = (struct err){0};
	g->is_again = g->is_discarded = g->is_counted = false;
	g->leftovers = 0;
	g->retry_us = GUEST_RETRY_US;
	if (begin(g, &err) < 0)
		guest_fail_start(g, &err);
}

int guest_start(struct guest_host *host, const struct guest_spec *spec, guest_started_fn started,
                guest_ended_fn ended, void *arg, struct guest **ret, struct err *err)
{
	struct guest *g, *last = NULL;
	int r = 0;

	if (!id_is_valid(spec->id, "sb") || spec->slot >= NAMESPACES_SLOTS_MAX ||
	    strnlen(spec->hostname, sizeof(spec->hostname)) == sizeof(spec->hostname))
		return err_set(err, ERR_BAD_REQUEST, EINVAL, "not a sandbox that can be started");
	if (guest_kind_of(spec->engine)->check)
		r = guest_kind_of(spec->engine)->check(host, spec, err);
	if (r < 0)
		return r;
	list_for_each (&host->guests, struct guest, other, link)
		if (strcmp(other->spec.id, spec->id) == 0)
			last = other;
	if (last && last != guest_find_removing(host, spec->id))
		return err_set(err, ERR_CONFLICT, EEXIST, "'%s' exists", spec->id);
	g = guest_new(host, spec, last ? GUEST_WAITING : GUEST_STARTING);
	if (last) { /* what its last life left is still being removed */
		g->last = last;
		last->gone = begin_after;
		last->gone_arg = g;
	} else {
		r = begin(g, err);
	}
	if (r < 0) {
		guest_remove(g); /* goes on in the background; nobody waits for it */
		return r;
	}
	g->started = started;
	g->ended = ended;
	g->arg = arg;
	*ret = g;
	return 0;
}
