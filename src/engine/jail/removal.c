// SPDX-License-Identifier: Apache-2.0
/*
 * How a guest goes. There is one way out, guest_remove(), for a killed, failed, dead or merely
 * found guest: kill the first process, and when it is reaped remove cgroups, layer and directory,
 * trying again as long as the kernel says busy. All of it works from the id alone, so that what an
 * earlier broker left needs no other code. A layer with a keeper's mark (keep.h) is brought to disk
 * and stays; only discard() takes the mark off and removes it.
 */
#include "engine/jail/guest.h"

#include "base/log.h"
#include "engine/jail/keep.h"
#include "engine/jail/memory.h"
#include "engine/jail/pidns.h"
#include "engine/jail/shot.h"
#include "engine/jail/tree.h"
#include "engine/vm/copy.h"
#include "engine/vm/save.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#define STUCK_US      (2 * 1000000U) /* from a SIGKILL to the end of all that is below */
#define RETRY_MOST_US 100000U
#define LEFTOVERS_MAX 20

struct guest *guest_new(const struct guest_spec *spec)
{
	struct guest *g = xnew0(struct guest);

	g->spec = *spec;
	g->status_fd = g->dir_fd = g->share_fd = g->tap_fd = -1;
	g->retry_us = GUEST_RETRY_US;
	list_append(&jail_host.guests, &g->link);
	return g;
}

void guest_free(struct loop *loop, void *arg)
{
	struct guest *g = arg;

	(void)loop;
	loop_timer_free(g->timer);
	guest_drop_start(g);
	close_fd(&g->status_fd);
	close_fd(&g->dir_fd);
	close_fd(&g->share_fd);
	close_fd(&g->tap_fd);
	free(g);
}

static void try_again(struct guest *g)
{
	loop_timer_set_in(g->timer, g->retry_us);
	g->retry_us = MIN(g->retry_us * 2, (uint64_t)RETRY_MOST_US);
}

/* Whether what could not be removed is tried again. In the end it is left to the next start. */
static bool is_tried_again(struct guest *g, const char *what, int r)
{
	log_debug("jail.leftover", "id=%s what=%s errno=%d", g->spec.id, what, -r);
	if (++g->leftovers > LEFTOVERS_MAX)
		return false;
	try_again(g);
	return true;
}

static void finish_removal(struct guest *g)
{
	int r = tree_remove(jail_host.sandboxes_fd, g->spec.id);

	if (r < 0 && is_tried_again(g, "directory", r))
		return;
	if (g->is_again && !g->gone) {
		guest_start_again(g);
		return;
	}
	list_remove(&g->link);
	log_debug("jail.removed", "id=%s", g->spec.id);
	if (g->gone)
		g->gone(g->gone_arg);
	else if (g->failure.code != ERR_NONE && g->started)
		g->started(g, &g->failure, g->arg);
	loop_defer(jail_host.loop, guest_free, g);
}

static void on_layer_done(struct loop *loop, int wait_status, void *arg)
{
	struct guest *g = arg;
	bool is_left = wait_status != 0;

	(void)loop;
	g->remover = NULL;
	if (g->is_discarded && storage_has(&jail_host.storage, g->spec.id))
		is_left = true; /* the word came while what was to be kept was brought to disk */
	if (!is_left || !is_tried_again(g, "layer", -EIO))
		finish_removal(g);
}

static void remove_layer(struct guest *g)
{
	const struct storage *storage = &jail_host.storage;
	uint64_t keeper;
	int pidfd = -1;
	int r = g->is_discarded ? keep_drop(storage, g->spec.id)
	                        : keep_read(storage, g->spec.id, &keeper);

	if (r < 0) { /* a want of memory or descriptors must not cost anybody's files */
		try_again(g);
		return;
	}
	if (r > 0)
		r = keep_sync_start(storage, &pidfd);
	else
		r = storage_remove(storage, g->spec.id, &pidfd);
	if (r == 1)
		r = loop_child_take(jail_host.loop, pidfd, on_layer_done, g, &g->remover);
	else
		r = r == 0 ? -ECHILD : r;
	if (r == -ECHILD || (r < 0 && !is_tried_again(g, "layer", r))) /* nothing to wait for */
		finish_removal(g);
}

/* The first process is reaped: with it everything in its pid namespace is dead. */
static void tell_final(struct guest *g)
{
	struct guest_usage usage;

	if (g->is_counted || !jail_host.final)
		return;
	g->is_counted = true;
	(void)!jail_usage(g, &usage, NULL);
	jail_host.final(g->spec.id, &usage, jail_host.final_arg);
}

static void suspect_zygote(const struct guest *g)
{
	struct zygote *z = zygotes_find(&jail_host.zygotes, &g->spec.image);

	if (z)
		zygote_suspect(z, "a sandbox cannot end");
}

void guest_try_removal(struct loop *loop, void *arg)
{
	struct guest *g = arg;

	(void)loop;
	if (g->child) { /* by a slow disk, or by something outside: only a zygote can */
		bool is_held = pidns_is_held(g->pid);

		log_debug("jail.stuck", "id=%s held=%d", g->spec.id, is_held);
		if (is_held)
			suspect_zygote(g);
		loop_timer_set_in(g->timer, STUCK_US);
		return;
	}
	tell_final(g);
	if (cgroup_remove(&jail_host.cgroups, g->spec.id) < 0) {
		/* Something of it is still dying, or was never below the first process. */
		cgroup_kill(&jail_host.cgroups, g->spec.id);
		try_again(g);
		return;
	}
	remove_layer(g);
}

void guest_remove(struct guest *g)
{
	struct err ignored;

	g->state = GUEST_REMOVING;
	shot_on_end(g);
	memory_drop(g);
	machine_drop_save(g);
	copy_unneed(g);
	guest_drop_start(g);
	loop_io_removep(&g->status_io);
	loop_timer_free(g->timer);
	g->timer = loop_timer_new(jail_host.loop, guest_try_removal, g);
	if (g->child)
		(void)pidfd_send_signal(loop_child_pidfd(g->child), SIGKILL, NULL, 0);
	/* A frozen v1 group cannot die, and the first process waits for what is below it. */
	(void)!cgroup_freeze(&jail_host.cgroups, g->spec.id, false, &ignored);
	loop_timer_set_in(g->timer, g->child ? STUCK_US : 0);
}

struct guest *guest_find_removing(const char *id)
{
	list_for_each (&jail_host.guests, struct guest, g, link)
		if (g->state == GUEST_REMOVING && !g->gone && !g->started &&
		    strcmp(g->spec.id, id) == 0)
			return g;
	return NULL;
}

void guest_remove_found(const char *id)
{
	struct guest_spec spec = {0};

	(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
	guest_remove(guest_new(&spec));
}

void jail_kill(struct guest *g, guest_gone_fn gone, void *arg)
{
	g->gone = gone;
	g->gone_arg = arg;
	if (g->state != GUEST_REMOVING)
		guest_remove(g);
}

int jail_discard(const char *id, guest_gone_fn gone, void *arg)
{
	struct guest_spec spec = {0};
	struct guest *g = guest_find_removing(id);

	if (!g && !storage_has(&jail_host.storage, id))
		return 0;
	if (!g) {
		(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
		g = guest_new(&spec);
		g->is_counted = true; /* when its processes ended */
		guest_remove(g);
	}
	g->is_discarded = true;
	g->gone = gone;
	g->gone_arg = arg;
	return 1;
}
