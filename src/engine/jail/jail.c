// SPDX-License-Identifier: Apache-2.0
/*
 * The jail engine: the life of a guest as the broker sees it.
 *
 *	starting --> running --> ended
 *	    +-----------+----------+--> removing --> (freed)
 *
 * start() makes a guest's host objects (start.c), lets the child go, and
 * waits on the loop for one of three things on the status pipe: the agent's "1" (it serves), a
 * struct err of a failed step, or the end. Nothing waits in the broker itself.
 *
 * There is one way out, remove_guest(), for a killed, failed, dead or merely found guest: kill the
 * first process, and when it is reaped remove cgroups, layer and directory, trying again as long
 * as the kernel says busy. All of it works from the id alone, so that what an earlier broker left
 * needs no other code. A layer with a keeper's mark (keep.h) is brought to disk and stays; only
 * discard() takes the mark off and removes it.
 */
#include "engine/jail/guest.h"

#include "base/fd.h"
#include "base/log.h"
#include "engine/jail/criu.h"
#include "engine/jail/door.h"
#include "engine/jail/keep.h"
#include "engine/jail/memory.h"
#include "engine/jail/ns.h"
#include "engine/jail/pidns.h"
#include "engine/jail/quiet.h"
#include "engine/jail/record.h"
#include "engine/jail/seal.h"
#include "engine/jail/share.h"
#include "engine/jail/shot.h"
#include "engine/jail/tree.h"
#include "engine/jail/volume.h"
#include "engine/vm/copy.h"
#include "engine/vm/kernel.h"
#include "engine/vm/machine.h"
#include "engine/vm/save.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

#define BOOT_GRACE_US   (10 * 1000000U)  /* for cloche-vmm to tell that it takes too long */
#define LINE_TIMEOUT_US (600 * 1000000U) /* until a copy's turn comes (memory_revive.c) */
#define STUCK_US        (2 * 1000000U)   /* from a SIGKILL to the end of all that is below */
#define RETRY_FIRST_US  500U
#define RETRY_MOST_US   100000U
#define LEFTOVERS_MAX   20

static struct guest *guest_new(const struct guest_spec *spec)
{
	struct guest *g = xnew0(struct guest);

	g->spec = *spec;
	g->status_fd = g->dir_fd = g->share_fd = g->tap_fd = -1;
	g->retry_us = RETRY_FIRST_US;
	list_append(&jail_host.guests, &g->link);
	return g;
}

static void guest_free(struct loop *loop, void *arg)
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

static void start_again(struct guest *g);

static void finish_removal(struct guest *g)
{
	int r = tree_remove(jail_host.sandboxes_fd, g->spec.id);

	if (r < 0 && is_tried_again(g, "directory", r))
		return;
	if (g->is_again && !g->gone) {
		start_again(g);
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

int jail_usage(struct guest *g, struct guest_usage *ret, struct err *err)
{
	(void)err;
	*ret = (struct guest_usage){0};
	cgroup_usage(&jail_host.cgroups, g->spec.id, ret);
	ret->disk_bytes = shot_usage(g->spec.id);
	return 0;
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

static void try_removal(struct loop *loop, void *arg)
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

static void remove_guest(struct guest *g)
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
	g->timer = loop_timer_new(jail_host.loop, try_removal, g);
	if (g->child)
		(void)pidfd_send_signal(loop_child_pidfd(g->child), SIGKILL, NULL, 0);
	/* A frozen v1 group cannot die, and the first process waits for what is below it. */
	(void)!cgroup_freeze(&jail_host.cgroups, g->spec.id, false, &ignored);
	loop_timer_set_in(g->timer, g->child ? STUCK_US : 0);
}

static void fail_start(struct guest *g, const struct err *err)
{
	if (g->spec.is_kvm && err->errnum == ENODEV) {
		machine_give_up_kvm();
		g->is_again = true;
		g->is_discarded = !g->spec.is_resumed;
	}
	g->failure = *err;
	remove_guest(g);
}

static void on_child_exit(struct loop *loop, int wait_status, void *arg)
{
	struct guest *g = arg;
	struct err err;

	g->child = NULL;
	switch (g->state) {
	case GUEST_STARTING:
		err_set(&err, ERR_INTERNAL, 0, "the sandbox's agent ended before it served");
		if (g->is_cloning)
			g->failure = err; /* on_cloned() tells */
		else
			fail_start(g, &err);
		break;
	case GUEST_RUNNING:
		g->state = GUEST_ENDED;
		g->ended(g, wait_status, g->arg);
		break;
	case GUEST_REMOVING:
		try_removal(loop, g);
		break;
	case GUEST_ENDED:
		assert(false);
		break;
	}
}

static void on_status(struct loop *loop, uint32_t events, void *arg)
{
	struct guest *g = arg;
	struct err err;
	ssize_t n = read(g->status_fd, &err, sizeof(err));

	(void)loop;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	loop_io_removep(&g->status_io);
	close_fd(&g->status_fd);
	if (n == sizeof(err)) {
		err.message[sizeof(err.message) - 1] = err.hint[sizeof(err.hint) - 1] = '\0';
		err.field[sizeof(err.field) - 1] = '\0';
		fail_start(g, &err);
	} else if (n == 1) {
		loop_timer_set(g->timer, UINT64_MAX);
		g->state = GUEST_RUNNING;
		log_debug("jail.serves", "id=%s pid=%d", g->spec.id, (int)g->pid);
		g->started(g, NULL, g->arg);
		shot_on_start(g);
	}
	/* At the end of the pipe the child's exit follows, and tells. */
}

static void on_start_timeout(struct loop *loop, void *arg)
{
	struct err err;

	(void)loop;
	err_set(&err, ERR_TIMEOUT, ETIMEDOUT, "the sandbox's agent did not serve in time");
	fail_start(arg, &err);
}

/* One whose removal nobody waits for: of a start that failed, or found dead. */
static struct guest *find_removing(const char *id)
{
	list_for_each (&jail_host.guests, struct guest, g, link)
		if (g->state == GUEST_REMOVING && !g->gone && !g->started &&
		    strcmp(g->spec.id, id) == 0)
			return g;
	return NULL;
}

/* It has its orders. */
static int await_guest(struct guest *g, struct err *err)
{
	int r = loop_io_add(jail_host.loop, g->status_fd, EPOLLIN, on_status, g, &g->status_io);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the jail's process");
	loop_timer_free(g->timer);
	g->timer = loop_timer_new(jail_host.loop, on_start_timeout, g);
	loop_timer_set_in(g->timer, g->spec.engine == ENGINE_VM
	                                    ? machine_boot_max_us(g->spec.is_kvm) + BOOT_GRACE_US
	                            : g->spec.with_memory ? LINE_TIMEOUT_US
	                                                  : GUEST_START_US);
	return 0;
}

static int launch(struct guest *g, struct err *err)
{
	int r = guest_launch(g, on_child_exit, fail_start, err);

	return r == 0 ? await_guest(g, err) : r;
}

static void on_cloned(struct guest *g, const struct err *failure)
{
	struct err err;

	if (g->failure.code != ERR_NONE) /* of what was done meanwhile */
		err = g->failure;
	else if (failure)
		err = *failure;
	else if (!g->start && launch(g, &err) == 0)
		return;
	else if (g->start && guest_go_on(g, &err) == 0 && await_guest(g, &err) == 0)
		return;
	fail_start(g, &err);
}

/* What fails is told when the layer is there: it cannot be removed before. */
static void launch_meanwhile(struct loop *loop, void *arg)
{
	struct guest *g = arg;

	(void)loop;
	if (g->is_cloning)
		(void)!launch(g, &g->failure);
}

/* All else is made while the layer is; but first those are begun that are asked for in the same
 * turn, so that their layers are made together. */
static int launch_from(struct guest *g, struct err *err)
{
	int r = shot_clone(g, on_cloned, err);

	if (r != 0)
		return r < 0 ? r : launch(g, err);
	g->timer = loop_timer_new(jail_host.loop, launch_meanwhile, g);
	loop_timer_set_in(g->timer, 0);
	return 0;
}

static void on_copy(struct guest *g, const struct err *failure)
{
	struct err err;

	if (failure)
		fail_start(g, failure);
	else if (launch_from(g, &err) < 0)
		fail_start(g, &err);
}

static int begin(struct guest *g, struct err *err)
{
	if (!g->spec.snapshot[0])
		return launch(g, err);
	return g->spec.engine == ENGINE_VM && g->spec.with_memory ? copy_need(g, on_copy, err)
	                                                          : launch_from(g, err);
}

static void begin_after(void *arg)
{
	struct err err;

	if (begin(arg, &err) < 0)
		fail_start(arg, &err);
}

/* Nothing is left of the first try. */
static void start_again(struct guest *g)
{
	struct err err;

	close_fd(&g->dir_fd);
	loop_timer_free(take_ptr(g->timer));
	g->state = GUEST_STARTING;
	g->failure = (struct err){0};
	g->is_again = g->is_discarded = g->is_counted = false;
	g->leftovers = 0;
	g->retry_us = RETRY_FIRST_US;
	if (begin(g, &err) < 0)
		fail_start(g, &err);
}

int jail_start(const struct guest_spec *spec, guest_started_fn started, guest_ended_fn ended,
               void *arg, struct guest **ret, struct err *err)
{
	struct guest *g, *last = NULL;
	int r = 0, image_fd;

	if (!id_is_valid(spec->id, "sb") || spec->slot >= NS_SLOTS_MAX ||
	    strnlen(spec->hostname, sizeof(spec->hostname)) == sizeof(spec->hostname))
		return err_set(err, ERR_BAD_REQUEST, EINVAL, "not a sandbox that can be started");
	if (spec->engine == ENGINE_JAIL &&
	    !digest_is_zero(&spec->image)) /* before anything is made */
		r = images_mount(&jail_host.images, &spec->image, &image_fd, err);
	if (r < 0)
		return r;
	list_for_each (&jail_host.guests, struct guest, other, link)
		if (strcmp(other->spec.id, spec->id) == 0)
			last = other;
	if (last && (last != find_removing(spec->id) || !spec->is_resumed))
		return err_set(err, ERR_CONFLICT, EEXIST, "'%s' exists", spec->id);
	g = guest_new(spec);
	if (last) { /* what its last life left is still being removed */
		last->gone = begin_after;
		last->gone_arg = g;
	} else {
		r = begin(g, err);
	}
	if (r < 0) {
		remove_guest(g); /* goes on in the background; nobody waits for it */
		return r;
	}
	g->started = started;
	g->ended = ended;
	g->arg = arg;
	*ret = g;
	return 0;
}

/* A guest that is only a name, to be removed. */
static void remove_found(const char *id)
{
	struct guest_spec spec = {0};

	(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
	remove_guest(guest_new(&spec));
}

int jail_adopt(const char *id, guest_ended_fn ended, void *arg, struct guest **ret,
               struct guest_spec *ret_spec, struct err *err)
{
	auto_fd int dir_fd = -1, pidfd = -1;
	struct record record;
	struct guest *g;
	int r;

	if (!id_is_valid(id, "sb"))
		return err_set(err, ERR_BAD_REQUEST, EINVAL, "not a sandbox's id");
	dir_fd =
		openat(jail_host.sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = dir_fd < 0 ? -errno : record_read(dir_fd, id, &record);
	if (r == 0)
		r = record_open_process(&record, &pidfd);
	if (r == -EPROTONOSUPPORT) {
		struct guest_spec spec = {0};

		/* It may live: leave() must not take the layers from under it. */
		(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
		guest_new(&spec)->state = GUEST_RUNNING;
		return err_set(err, ERR_UNSUPPORTED, -r, "the record of '%s' is of another cloche",
		               id);
	}
	if (r < 0) {
		remove_found(id);
		return err_set(err, ERR_GONE, ESRCH, "'%s' is dead", id);
	}
	g = guest_new(&record.spec);
	r = loop_child_add(jail_host.loop, pidfd, on_child_exit, g, &g->child);
	if (r < 0) {
		list_remove(&g->link);
		guest_free(jail_host.loop, g);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch '%s'", id);
	}
	(void)take_fd(&pidfd);
	g->state = GUEST_RUNNING;
	g->pid = record.pid;
	nest_find(&jail_host.nest, g->pid);
	g->dir_fd = take_fd(&dir_fd);
	shot_adopt(g);
	g->ended = ended;
	g->arg = arg;
	*ret = g;
	*ret_spec = record.spec;
	return 0;
}

int jail_connect(struct guest *g, int *ret_fd, struct err *err)
{
	const struct sockaddr_un addr = guest_agent_address(g);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	if (fd < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a socket");
	r = connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	if (r == -ECONNREFUSED && quiet_recover(g, err) == 0)
		r = connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
	if (r < 0)
		return err_set(err, ERR_UNAVAILABLE, -r, "cannot connect to the agent");
	*ret_fd = take_fd(&fd);
	return 0;
}

static int jail_set_limits(struct guest *g, const struct guest_limits *limits, struct err *err)
{
	struct guest_spec wanted = g->spec;
	cpu_set_t cpus;
	int r;

	wanted.limits = *limits;
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	r = cgroup_set_limits(&jail_host.cgroups, g->spec.id, limits, err);
	if (r == 0)
		r = storage_limit(&jail_host.storage, g->spec.id, shot_limit(&wanted), err);
	if (r == 0 && g->share_fd >= 0)
		r = share_update(g->share_fd, limits, err);
	if (r < 0)
		return r;
	g->spec.limits = *limits;
	/* New execs inherit it from the agent. */
	share_pick_cpus(g->spec.slot, limits, &cpus);
	(void)sched_setaffinity(g->pid, sizeof(cpus), &cpus);
	return record_write(g->dir_fd, &g->spec, g->pid, err);
}

void jail_shortage(struct guest *g, struct guest_shortage *ret)
{
	cgroup_shortage(&jail_host.cgroups, g->spec.id, ret);
}

int jail_freeze(struct guest *g, bool on, struct err *err)
{
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	return shot_freeze(g, on, err);
}

static int jail_fork(struct guest *g, const char *tag, guest_forked_fn forked, void *arg,
                     struct err *err)
{
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	/* A copy's user namespace is not one that a zygote can enter. */
	if (g->spec.with_memory)
		return err_set(err, ERR_UNSUPPORTED, 0, "a copy of a memory takes no forks");
	return zygote_fork(zygotes_take(&jail_host.zygotes, &g->spec.image), g->spec.id, g->pid,
	                   g->spec.limits.nofile, tag, forked, arg, err);
}

void jail_kill(struct guest *g, guest_gone_fn gone, void *arg)
{
	g->gone = gone;
	g->gone_arg = arg;
	if (g->state != GUEST_REMOVING)
		remove_guest(g);
}

int jail_discard(const char *id, guest_gone_fn gone, void *arg)
{
	struct guest_spec spec = {0};
	struct guest *g = find_removing(id);

	if (!g && !storage_has(&jail_host.storage, id))
		return 0;
	if (!g) {
		(void)snprintf(spec.id, sizeof(spec.id), "%s", id);
		g = guest_new(&spec);
		g->is_counted = true; /* when its processes ended */
		remove_guest(g);
	}
	g->is_discarded = true;
	g->gone = gone;
	g->gone_arg = arg;
	return 1;
}

static void jail_each_kept(void (*fn)(const char *id, uint64_t keeper, void *arg), void *arg)
{
	keep_each(&jail_host.storage, fn, arg);
}

struct sweep {
	bool (*is_known)(const char *id, void *arg);
	void *arg;
};

static void sweep_id(const char *id, void *arg)
{
	const struct sweep *s = arg;

	if (s->is_known(id, s->arg))
		return;
	list_for_each (&jail_host.guests, struct guest, g, link)
		if (strcmp(g->spec.id, id) == 0)
			return; /* found before, or being removed */
	log_debug("jail.swept", "id=%s", id);
	remove_found(id);
}

/* One that is kept waits for the gateway's word. */
static void sweep_layer(const char *id, void *arg)
{
	uint64_t keeper;

	if (keep_read(&jail_host.storage, id, &keeper) == 0)
		sweep_id(id, arg);
}

static void jail_sweep(bool (*is_known)(const char *id, void *arg), void *arg)
{
	struct sweep s = {is_known, arg};
	struct err err;

	seal_sweep();
	shots_sweep();
	volumes_sweep();
	/* Ahead of the first start, which says why if it cannot be. */
	if (nest_need(&jail_host.nest, &err) < 0)
		log_debug("jail.no_nest", "error='%s'", err.message);
	else
		zygotes_start(&jail_host.zygotes);
	tree_each_id(jail_host.sandboxes_fd, sweep_id, &s);
	tree_each_id(jail_host.storage.fd, sweep_layer, &s);
	cgroup_each(&jail_host.cgroups, sweep_id, &s);
}

static void jail_leave(void)
{
	bool is_over = list_empty(&jail_host.guests);

	seal_end_all();
	shots_close();
	copies_close();
	criu_close();
	/* The handles go, the guests stay: the next broker adopts them. */
	list_for_each (&jail_host.guests, struct guest, g, link) {
		loop_io_removep(&g->status_io);
		loop_child_remove(g->child);
		loop_child_remove(g->remover);
		list_remove(&g->link);
		guest_free(jail_host.loop, g);
	}
	jail_host_close(is_over);
}

const struct engine jail_engine = {
	.name = "jail",
	.probe = jail_host_open,
	.leave = jail_leave,
	.isolation = jail_isolation,
	.start = jail_start,
	.adopt = jail_adopt,
	.connect = jail_connect,
	.set_limits = jail_set_limits,
	.usage = jail_usage,
	.shortage = jail_shortage,
	.freeze = jail_freeze,
	.open_door = door_open,
	.close_door = door_close,
	.dial = door_dial,
	.fork = jail_fork,
	.kill = jail_kill,
	.discard = jail_discard,
	.each_kept = jail_each_kept,
	.seal = seal_start,
	.cancel_seal = seal_cancel,
	.each_image = jail_each_image,
	.remove_image = jail_remove_image,
	.snapshot = shot_take,
	.discard_snapshot = shot_discard,
	.each_snapshot = shot_each,
	.make_volume = volume_make,
	.discard_volume = volume_discard,
	.each_volume = volume_each,
	.set_kernel = kernel_choose,
	.sweep = jail_sweep,
};
