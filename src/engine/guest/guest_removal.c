// SPDX-License-Identifier: Apache-2.0
/*
 * Removes a guest. guest_remove() is the only way, for a guest that was killed, failed, found dead
 * or only found by its name: it kills the first process, and when that is reaped it removes
 * cgroups, layer and directory, trying again while the kernel says busy. All of it works from the
 * id alone, so leftovers of an earlier broker need no other code. A layer with a keeper's mark
 * (kept_layer.h) is synced to disk and stays; only discard() takes the mark off and removes it.
 *
 * Each step is a state (guest.h), and the table of steps is in guest_proceed_removal(). A step that
 * has to wait either arms the timer or starts a worker, and returns to the loop. A system call in a
 * step may block for seconds on a slow disk; then other guests' timers and exits are due in the
 * same turn. That is why a timer never outlives its state.
 */
#include "engine/guest/guest.h"

#include "base/log.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/guest_kind.h"
#include "engine/layer/kept_layer.h"
#include "engine/linux/dir_tree.h"
#include "engine/linux/pidns.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#define STUCK_US      (2 * 1000000U) /* from a SIGKILL to the end of all that is below */
#define RETRY_MOST_US 100000U
#define LEFTOVERS_MAX 20

static void try_again(struct guest *g)
{
	guest_arm(g, g->retry_us, guest_proceed_removal);
	g->retry_us = MIN(g->retry_us * 2, (uint64_t)RETRY_MOST_US);
}

/* Whether a failed removal is tried again. After some tries it is left to the next start. */
static bool is_tried_again(struct guest *g, const char *what, int r)
{
	log_debug("jail.leftover", "id=%s what=%s errno=%d", g->spec.id, what, -r);
	if (++g->leftovers > LEFTOVERS_MAX)
		return false;
	try_again(g);
	return true;
}

/* Called when a slow disk, or something outside, holds up the removal. */
static void on_stuck(struct guest *g)
{
	bool is_held = g->child && pidns_is_held(g->pid);

	log_debug("jail.stuck", "id=%s held=%d", g->spec.id, is_held);
	if (is_held && g->kind->stuck)
		g->kind->stuck(g);
	guest_proceed_removal(g);
}

/* This and the following functions are steps of the removal. Each returns the next state, or its
 * own state if it waits for something that calls it again. */
static enum guest_state await_death(struct guest *g)
{
	if (!g->child && !g->worker && !g->last)
		return GUEST_GROUPS;
	guest_arm(g, STUCK_US, on_stuck);
	return GUEST_DYING;
}

static void read_final(struct guest *g)
{
	struct guest_usage usage;

	if (!g->host->final)
		return;
	(void)!guest_read_usage(g, &usage, NULL);
	g->host->final(g->spec.id, &usage, g->host->final_arg);
}

/* The first process is reaped: with it everything in its pid namespace is dead. */
static void tell_final(struct guest *g)
{
	if (g->is_counted)
		return;
	g->is_counted = true;
	read_final(g);
}

static enum guest_state remove_groups(struct guest *g)
{
	tell_final(g);
	if (cgroup_remove(&g->host->cgroups, g->spec.id) == 0)
		return GUEST_LAYER;
	/* Some of its processes are still dying, or were never below the first process. */
	cgroup_kill(&g->host->cgroups, g->spec.id);
	try_again(g);
	return GUEST_GROUPS;
}

static void on_layer_done(struct loop *loop, int wait_status, void *arg)
{
	struct guest *g = arg;

	(void)loop;
	if (!guest_take_worker(g))
		return;
	if (wait_status != 0 && is_tried_again(g, "layer", -EIO))
		return;
	guest_move(g, GUEST_DIRECTORY);
	guest_proceed_removal(g);
}

static enum guest_state remove_layer(struct guest *g)
{
	const struct storage *storage = &g->host->storage;
	uint64_t keeper;
	int pidfd = -1;
	int r = g->is_discarded ? kept_layer_drop(storage, g->spec.id)
	                        : kept_layer_read(storage, g->spec.id, &keeper);

	if (r < 0) { /* a want of memory or descriptors must not cost anybody's files */
		try_again(g);
		return GUEST_LAYER;
	}
	if (r > 0)
		r = kept_layer_sync_start(storage, &pidfd);
	else
		r = storage_remove(storage, g->spec.id, g->leftovers > 0, &pidfd);
	if (r == 1)
		r = loop_child_take(g->host->loop, pidfd, on_layer_done, g, &g->worker);
	else if (r == 0)
		return GUEST_DIRECTORY;
	return r == 0 || is_tried_again(g, "layer", r) ? GUEST_LAYER : GUEST_DIRECTORY;
}

static enum guest_state remove_directory(struct guest *g)
{
	int r = dir_tree_remove(g->host->sandboxes_fd, g->spec.id);

	if (r < 0 && is_tried_again(g, "directory", r))
		return GUEST_DIRECTORY;
	/* The discard came after the layer had been synced to be kept. */
	if (g->is_discarded && storage_has(&g->host->storage, g->spec.id) &&
	    ++g->leftovers <= LEFTOVERS_MAX)
		return GUEST_LAYER;
	return g->is_again && !g->gone ? GUEST_STARTING : GUEST_GONE;
}

/* The end of every guest. */
static void finish(struct guest *g)
{
	const guest_gone_fn gone = take_ptr(g->gone);
	const guest_started_fn started = take_ptr(g->started);

	list_remove(&g->link);
	log_debug("jail.removed", "id=%s", g->spec.id);
	if (started && !gone && g->failure.code == ERR_NONE)
		(void)err_set(&g->failure, ERR_INTERNAL, 0, "the sandbox could not be started");
	if (gone)
		gone(g->gone_arg);
	else if (started)
		started(g, &g->failure, g->arg);
	loop_defer(g->host->loop, guest_free, g);
}

void guest_proceed_removal(struct guest *g)
{
	static enum guest_state (*const steps[GUEST_STATE_COUNT])(struct guest * g) = {
		[GUEST_DYING] = await_death,
		[GUEST_GROUPS] = remove_groups,
		[GUEST_LAYER] = remove_layer,
		[GUEST_DIRECTORY] = remove_directory,
	};

	while (steps[g->state]) {
		enum guest_state next = steps[g->state](g);

		if (next == g->state)
			return;
		guest_move(g, next);
	}
	if (g->state == GUEST_STARTING)
		guest_start_again(g);
	else
		finish(g);
}

void guest_remove(struct guest *g)
{
	struct err ignored;

	guest_move(g, GUEST_DYING);
	disk_snapshot_on_end(g);
	g->kind->drop(g);
	guest_drop_start(g);
	loop_io_removep(&g->status_io);
	if (g->child)
		(void)pidfd_send_signal(loop_child_pidfd(g->child), SIGKILL, NULL, 0);
	/* A frozen v1 group cannot die, and the first process waits for what is below it. */
	(void)!cgroup_freeze(&g->host->cgroups, g->spec.id, false, &ignored);
	/* Called from the loop, so that the caller's callback does not run before this call has
	 * returned. */
	if (g->child)
		guest_arm(g, STUCK_US, on_stuck);
	else
		guest_arm(g, 0, guest_proceed_removal);
}

struct guest *guest_find_removing(struct guest_host *host, const char *id)
{
	list_for_each (&host->guests, struct guest, g, link)
		if (guest_is_removing(g) && !g->gone && !g->started && strcmp(g->spec.id, id) == 0)
			return g;
	return NULL;
}

void guest_remove_found(struct guest_host *host, const char *id)
{
	struct guest_spec spec = {0};
	struct guest *g;

	(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
	g = guest_new(host, &spec, GUEST_ENDED);
	read_final(g); /* somebody may ask before it is removed */
	guest_remove(g);
}

void guest_kill(struct guest *g, guest_gone_fn gone, void *arg)
{
	g->gone = gone;
	g->gone_arg = arg;
	if (!guest_is_removing(g))
		guest_remove(g);
}

int guest_discard(struct guest_host *host, const char *id, guest_gone_fn gone, void *arg)
{
	struct guest_spec spec = {0};
	struct guest *g = guest_find_removing(host, id);

	if (!g && !storage_has(&host->storage, id))
		return 0;
	if (!g) {
		(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
		g = guest_new(host, &spec, GUEST_ENDED);
		g->is_counted = true; /* when its processes ended */
		guest_remove(g);
	}
	g->is_discarded = true;
	g->gone = gone;
	g->gone_arg = arg;
	return 1;
}
