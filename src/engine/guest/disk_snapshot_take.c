// SPDX-License-Identifier: Apache-2.0
/*
 * Taking a snapshot:
 *
 *	freezing --> copying --> finishing --> (told)
 *
 * The guest is frozen until the copy is made, which is one ioctl. The ioctl first writes out dirty
 * data, which may take long, so a child of the broker calls it. The child also does the rest, which
 * needs the disk: the manifest, fsync, and the final name. Meanwhile a mark in the sandbox's run
 * directory says that we have frozen the guest: if this broker dies, the next one lets it go on.
 *
 * With memory, CRIU stops the guest (memory.h), and the copy is made while everything is stopped
 * for it; after the copy the child waits until the memory is complete. A vm is stopped by its
 * cloche-vmm (vm/save.h), with memory or without.
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/disk_snapshot_private.h"
#include "engine/guest/guest_kind.h"
#include "engine/layer/snapshot_manifest.h"
#include "engine/linux/btrfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define FROZEN_MARK    "snapshot"
#define THAW_TRIES     5
#define FIRST_LOOK_US  200U
#define LAST_LOOK_US   20000U
#define STANDSTILL_MAX (10 * SECOND_US)
#define FREE_LEAST     (UINT64_C(64) << 20)
#define COUNT_MAX      65536

struct finished { /* by the child */
	struct snapshot_info info;
	struct err err;
};

struct taking {
	struct guest_host *host;
	struct list link;
	struct guest *g; /* NULL: of a kept layer, or it has ended */
	bool is_frozen;  /* by us */
	struct snapshot_spec spec;
	struct snapshot_info info; /* as far as it is known */
	uint64_t pause_us, until_us;
	struct loop_timer *timer;
	struct loop_io *io;
	struct loop_child *child;
	int result_fd;
	bool is_copied;            /* the child has told so */
	bool is_saving;            /* memory, which ends by on_memory() */
	int saved_fd;              /* its directory, until then */
	void (*saved)(int dir_fd); /* of the guest's kind, which may be gone by then */
	int memory_fd;      /* tells the child how large the memory is; its end: there is none */
	struct err failure; /* of the memory, or of the child before that has ended */
	bool is_lost;       /* its source has ended before the copy */
	snapshot_fn fn;
	void *arg;
};

static struct list takings = LIST_INIT(takings);

static bool has_own_disk(const struct guest *g)
{
	return g && g->kind->has_own_disk;
}

/* From here to start_child(): in a child. */
static int measure(struct guest_host *host, int layer_fd, struct snapshot_info *info,
                   struct err *err)
{
	const struct disk_snapshot_below below = disk_snapshot_below(host, info->source);
	uint64_t usage = 0;
	int r = btrfs_usage(layer_fd, &usage);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot measure the snapshot");
	info->is_unshared = !host->storage.counts_once;
	info->written_bytes = usage;
	info->line = below.line;
	info->bytes = usage + (info->is_unshared ? 0 : below.bytes);
	return 0;
}

static int make_copy(struct guest_host *host, struct snapshot_info *info, bool is_brief, int dir_fd,
                     struct err *err)
{
	auto_fd int layer_fd = disk_snapshot_open_dir(host->storage.fd, info->source);
	int r = layer_fd < 0 ? -errno
	        : is_brief   ? btrfs_clone(dir_fd, layer_fd, DISK_SNAPSHOT_FILES)
	                     : btrfs_snapshot(dir_fd, layer_fd, DISK_SNAPSHOT_FILES);

	if (r < 0)
		return err_set(err,
		               r == -ENOSPC || r == -EDQUOT ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
		               "cannot copy the sandbox's files");
	return measure(host, layer_fd, info, err);
}

static int fail_on_disk(struct err *err, const char *what)
{
	return err_set(err, errno == ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, errno, "cannot %s",
	               what);
}

static int publish(struct guest_host *host, const char *name, const struct snapshot_info *info,
                   int dir_fd, bool is_synced, struct err *err)
{
	int storage_fd = host->storage.fd;
	int r = snapshot_manifest_write(dir_fd, info, is_synced, err);

	if (r == 0 && is_synced && fsync(dir_fd) < 0)
		r = fail_on_disk(err, "bring the snapshot to the host's disk");
	if (r == 0 && renameat(storage_fd, name, storage_fd, info->id) < 0)
		r = fail_on_disk(err, "name the snapshot on the host's disk");
	if (r == 0 && is_synced && fsync(storage_fd) < 0)
		r = fail_on_disk(err, "bring the snapshot's name to the host's disk");
	return r;
}

static int copy(struct guest_host *host, const char *name, const struct snapshot_spec *spec,
                struct finished *f, int *ret_dir_fd)
{
	auto_fd int dir_fd = -1;
	int r;

	if (!spec->has_memory && mkdirat(host->storage.fd, name, 0700) < 0)
		return fail_on_disk(&f->err, "make a directory for the snapshot");
	dir_fd = disk_snapshot_open_dir(host->storage.fd, name);
	if (dir_fd < 0)
		return err_set(&f->err, ERR_INTERNAL, errno, "cannot open the snapshot");
	r = make_copy(host, &f->info, spec->is_brief != 0, dir_fd, &f->err);
	if (r == 0)
		*ret_dir_fd = take_fd(&dir_fd);
	return r;
}

static int await_memory(int in_fd, int dir_fd, bool is_synced, struct finished *f)
{
	if (fd_read_all(in_fd, &f->info.memory_bytes, sizeof(f->info.memory_bytes)) < 0)
		return err_set(&f->err, ERR_INTERNAL, 0, "the memory was not saved");
	if (is_synced && syncfs(dir_fd) < 0)
		return fail_on_disk(&f->err, "bring the memory to the host's disk");
	return 0;
}

/* Empties the work directories here, or each of its copies would have to. */
static void tidy(int dir_fd)
{
	auto_fd int files_fd = disk_snapshot_open_dir(dir_fd, DISK_SNAPSHOT_FILES);

	if (files_fd >= 0)
		(void)disk_snapshot_tidy(files_fd);
}

/* Sends a byte when the sandbox may go on, and a struct finished with the result. */
static int run_taking(const struct taking *t, int in_fd, int out_fd)
{
	struct finished f = {.info = t->info};
	auto_fd int dir_fd = -1;
	char name[DISK_SNAPSHOT_NAME_SIZE];
	int r;

	(void)snprintf(name, sizeof(name), "%s.new", t->spec.id);
	r = copy(t->host, name, &t->spec, &f, &dir_fd);
	if (fd_write_all(out_fd, "c", 1) < 0)
		return 1;
	if (r == 0 && t->spec.is_brief)
		tidy(dir_fd);
	if (r == 0 && t->spec.has_memory)
		r = await_memory(in_fd, dir_fd, !t->spec.is_brief, &f);
	if (r == 0)
		(void)!publish(t->host, name, &f.info, dir_fd, !t->spec.is_brief, &f.err);
	return fd_write_all(out_fd, &f, sizeof(f)) == 0 ? 0 : 1;
}

static void taking_free(struct loop *loop, void *arg)
{
	struct taking *t = arg;

	(void)loop;
	close_fd(&t->result_fd);
	close_fd(&t->memory_fd);
	close_fd(&t->saved_fd);
	free(t);
}

/* A short lack of memory must not leave a guest frozen. */
static bool thaw(struct guest_host *host, const char *id)
{
	struct err err = {0};
	int r = -EIO;

	for (unsigned i = 0; r < 0 && i < THAW_TRIES; i++)
		r = cgroup_freeze(&host->cgroups, id, false, &err);
	if (r < 0)
		log_error("snapshot.frozen", "id=%s error='%s'", id, err.message);
	return r >= 0;
}

static void let_go(struct taking *t)
{
	if (t->is_saving && t->g)
		t->g->kind->release(t->g);
	if (!t->is_frozen)
		return;
	t->is_frozen = false;
	if (!t->g)
		return;
	if (t->g->held_by) /* disk_snapshot_unhold() does the rest */
		return;
	if (!t->g->is_frozen && !thaw(t->host, t->g->spec.id))
		return; /* the mark stays: the next broker lets it go on */
	(void)unlinkat(t->g->dir_fd, FROZEN_MARK, 0);
}

/* Called after success and after failure. */
static void leave(struct taking *t)
{
	let_go(t);
	list_remove(&t->link);
	loop_timer_free(t->timer);
	loop_io_removep(&t->io);
	loop_defer(t->host->loop, taking_free, t);
}

static void succeed(struct taking *t, const struct snapshot_info *info)
{
	leave(t);
	disk_snapshot_add(info, t->spec.is_brief != 0);
	disk_snapshot_set_limit(t->host, info->source);
	log_info("snapshot.taken", "id=%s source=%s", info->id, info->source);
	t->fn(info, NULL, t->arg);
}

/* Removes what was made so far; it may already have its final name. */
static void fail(struct taking *t, const struct err *err)
{
	char name[DISK_SNAPSHOT_NAME_SIZE];

	leave(t);
	if (t->g)
		t->g->kind->go_on(t->g);
	(void)snprintf(name, sizeof(name), "%s.new", t->spec.id);
	disk_snapshot_remove_dir(t->host, name);
	disk_snapshot_remove_dir(t->host, t->spec.id);
	log_warn("snapshot.failed", "id=%s source=%s error='%s'", t->spec.id, t->info.source,
	         err->message);
	t->fn(NULL, err, t->arg);
}

static void on_copied(struct loop *loop, uint32_t events, void *arg)
{
	struct taking *t = arg;
	char c;

	(void)loop;
	(void)events;
	loop_io_removep(&t->io);
	t->is_copied = read(t->result_fd, &c, 1) == 1; /* else its end tells */
	if (t->is_copied)
		let_go(t);
}

static void on_finished(struct loop *loop, int wait_status, void *arg)
{
	struct taking *t = arg;
	struct finished f;
	char c;

	(void)loop;
	if (!t->is_copied) { /* both came in one turn, or nobody could wait for the first */
		(void)!read(t->result_fd, &c, 1);
		let_go(t); /* a machine's part ends by it, while on_memory() sees a child */
	}
	t->child = NULL;
	if (wait_status != 0 || fd_read_all(t->result_fd, &f, sizeof(f)) < 0)
		(void)err_set(&f.err, ERR_INTERNAL, 0, "the snapshot's child ended early");
	if (f.err.code == ERR_NONE) {
		succeed(t, &f.info);
		return;
	}
	if (t->failure.code != ERR_NONE)
		f.err = t->failure;
	if (t->is_saving) {
		t->failure = f.err;
		let_go(t);
		return;
	}
	if (t->is_lost)
		(void)err_set(&f.err, ERR_GONE, ESRCH, "sandbox %s has ended meanwhile",
		              t->info.source);
	fail(t, &f.err);
}

static int start_child(struct taking *t, struct err *err)
{
	int fds[2], memory[2], pidfd = -1, r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a pipe");
	t->result_fd = fds[0];
	if (pipe2(memory, O_CLOEXEC) < 0) {
		(void)close(fds[1]);
		return err_set(err, ERR_INTERNAL, errno, "cannot make a pipe");
	}
	t->memory_fd = memory[1];
	pid = disk_snapshot_fork(&pidfd);
	if (pid == 0) {
		(void)close(memory[1]); /* else it would wait for itself */
		_exit(run_taking(t, memory[0], fds[1]));
	}
	(void)close(fds[1]);
	(void)close(memory[0]);
	if (pid < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a child");
	r = loop_child_take(t->host->loop, pidfd, on_finished, t, &t->child);
	if (r == 0)
		r = loop_io_add(t->host->loop, t->result_fd, EPOLLIN, on_copied, t, &t->io);
	if (r < 0 && t->child) /* it is waited for all the same, the sandbox for longer */
		r = 0;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch a child") : 0;
}

static void on_still(void *arg)
{
	struct taking *t = arg;

	if (start_child(t, &t->failure) < 0)
		let_go(t); /* on_memory() tells */
}

static void on_memory(uint64_t bytes, const struct err *err, void *arg)
{
	struct taking *t = arg;

	t->is_saving = false;
	if (err && t->failure.code == ERR_NONE)
		t->failure = *err;
	/* Forks start from it at once; later starts will find out if the disk has damaged it. */
	if (t->spec.is_brief && t->saved_fd >= 0 && t->failure.code == ERR_NONE && t->saved)
		t->saved(t->saved_fd);
	close_fd(&t->saved_fd);
	if (t->child && t->failure.code == ERR_NONE)
		(void)!fd_write_all(t->memory_fd, &bytes, sizeof(bytes));
	close_fd(&t->memory_fd);
	if (!t->child)
		fail(t, &t->failure);
}

static const struct memory_ops memory_ops = {on_still, on_memory};

static int make_memory_dir(const struct taking *t, int *ret_fd, struct err *err)
{
	char name[DISK_SNAPSHOT_NAME_SIZE];
	auto_fd int dir_fd = -1, memory_fd = -1;

	(void)snprintf(name, sizeof(name), "%s.new", t->spec.id);
	if (mkdirat(t->host->storage.fd, name, 0700) == 0)
		dir_fd = disk_snapshot_open_dir(t->host->storage.fd, name);
	if (dir_fd >= 0 && mkdirat(dir_fd, DISK_SNAPSHOT_MEMORY, 0700) == 0)
		memory_fd = disk_snapshot_open_dir(dir_fd, DISK_SNAPSHOT_MEMORY);
	if (memory_fd < 0)
		return fail_on_disk(err, "make a directory for the snapshot");
	*ret_fd = take_fd(&memory_fd);
	return 0;
}

static int begin_save(struct taking *t, struct err *err)
{
	auto_fd int memory_fd = -1;
	int r = t->spec.has_memory ? make_memory_dir(t, &memory_fd, err) : 0;

	if (r == 0)
		r = t->g->kind->save(t->g, memory_fd, &t->spec, &memory_ops, t, err);
	t->is_saving = r == 0;
	if (r == 0) {
		t->saved_fd = take_fd(&memory_fd);
		t->saved = t->g->kind->saved;
	}
	return r;
}

static void look(struct loop *loop, void *arg)
{
	struct taking *t = arg;
	struct err err = {0};
	int r = t->is_lost ? err_set(&err, ERR_GONE, ESRCH, "sandbox %s has ended", t->info.source)
	        : has_own_disk(t->g) || t->spec.has_memory ? begin_save(t, &err)
	        : t->g ? cgroup_freeze(&t->host->cgroups, t->g->spec.id, true, &err)
	               : 0;

	if (r == 1 && loop_now_us(loop) < t->until_us) {
		t->pause_us = MIN(2 * t->pause_us, LAST_LOOK_US);
		loop_timer_set_in(t->timer, t->pause_us);
		return;
	}
	if (r == 1) {
		r = err_set(&err, ERR_TIMEOUT, 0,
		            "a process of sandbox %s is held up in the kernel: no snapshot was "
		            "taken",
		            t->info.source);
		(void)err_hint(&err, "try again, or stop it first");
	}
	if (r == 0 && !t->is_saving)
		r = start_child(t, &err);
	if (r < 0)
		fail(t, &err);
}

static struct guest *find_guest(struct guest_host *host, const char *id)
{
	list_for_each (&host->guests, struct guest, g, link)
		if (strcmp(g->spec.id, id) == 0)
			return g;
	return NULL;
}

static int check_room(struct guest_host *host, struct err *err)
{
	struct statvfs disk;

	if (!host->storage.is_btrfs) {
		(void)err_set(err, ERR_UNSUPPORTED, 0, "plain storage has no snapshots");
		return err_hint(err, "start the daemon without --plain-storage: its layers are on "
		                     "btrfs then");
	}
	if (disk_snapshot_count() >= COUNT_MAX)
		return err_set(err, ERR_LIMIT, 0, "there are %zu snapshots on this host",
		               disk_snapshot_count());
	if (fstatvfs(host->storage.fd, &disk) == 0 &&
	    (uint64_t)disk.f_bavail * disk.f_frsize < FREE_LEAST)
		return err_set(err, ERR_HOST_DISK_FULL, ENOSPC, "the host's disk is full");
	return 0;
}

static int check_source(struct guest_host *host, const char *id, const struct snapshot_spec *spec,
                        const struct guest *g, struct err *err)
{
	list_for_each (&takings, const struct taking, t, link)
		if (strcmp(t->info.source, id) == 0)
			return err_set(err, ERR_CONFLICT, EBUSY,
			               "a snapshot of sandbox %s is being taken already", id);
	if (disk_snapshot_find(spec->id))
		return err_set(err, ERR_CONFLICT, EEXIST, "snapshot %s exists", spec->id);
	if (g && g->state != GUEST_RUNNING)
		return err_set(err, ERR_CONFLICT, EBUSY, "sandbox %s is %s", id,
		               g->state < GUEST_RUNNING ? "starting" : "ending");
	if (!storage_has(&host->storage, id))
		return err_set(err, ERR_NOT_FOUND, ENOENT, "sandbox %s has no files here", id);
	if (spec->has_memory && !g)
		return err_set(err, ERR_CONFLICT, ESRCH,
		               "sandbox %s does not run: it has no memory", id);
	/* CRIU must run code in the guest, and a machine must write out its data, so it cannot be
	 * frozen. */
	if (g && g->is_frozen && (spec->has_memory || has_own_disk(g))) {
		(void)err_set(err, ERR_CONFLICT, EBUSY, "sandbox %s is paused", id);
		return err_hint(err, "resume it, or leave memory out");
	}
	return spec->has_memory && g->kind->check_memory ? g->kind->check_memory(g->host, err) : 0;
}

/* Makes the mark by which the next broker knows that it must let the guest go on. */
static int mark_frozen(const struct guest *g, struct err *err)
{
	int r = fd_replace_file(g->dir_fd, FROZEN_MARK, "", 0, 0600, /* sync= */ false);

	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
	                       "cannot mark the sandbox as one that stands still")
	             : 0;
}

int disk_snapshot_take(struct guest_host *host, const char *id, const struct digest *image,
                       const struct snapshot_spec *spec, snapshot_fn fn, void *arg, struct err *err)
{
	struct guest *g = find_guest(host, id);
	struct taking *t;
	int r = check_room(host, err);

	if (r == 0)
		r = check_source(host, id, spec, g, err);
	if (r == 0 && g && !spec->has_memory && !has_own_disk(g))
		r = mark_frozen(g, err);
	if (r < 0)
		return r;
	t = xnew0(struct taking);
	*t = (struct taking){.host = host,
	                     .g = g,
	                     .is_frozen = g && !spec->has_memory && !has_own_disk(g),
	                     .spec = *spec,
	                     .pause_us = FIRST_LOOK_US,
	                     .until_us = loop_now_us(host->loop) + STANDSTILL_MAX,
	                     .result_fd = -1,
	                     .memory_fd = -1,
	                     .saved_fd = -1,
	                     .fn = fn,
	                     .arg = arg,
	                     .info = {.keeper = spec->keeper, .image = *image}};
	memcpy(t->info.id, spec->id, sizeof(t->info.id));
	(void)snprintf(t->info.source, sizeof(t->info.source), "%s", id);
	t->timer = loop_timer_new(host->loop, look, t);
	list_append(&takings, &t->link);
	loop_timer_set_in(t->timer, 0); /* from the loop, after this call has returned */
	return 0;
}

static bool is_taken(const struct guest *g)
{
	list_for_each (&takings, const struct taking, t, link)
		if (t->g == g)
			return true;
	return false;
}

/* By a snapshot that is being taken. */
static bool is_still_frozen(const struct guest *g)
{
	list_for_each (&takings, const struct taking, t, link)
		if (t->g == g && t->is_frozen)
			return true;
	return false;
}

/* A guest is not frozen while a snapshot is taken of it: CRIU must run code in it. */
bool disk_snapshot_hold(struct guest *g, enum held_by who)
{
	struct err err;

	if (g->state != GUEST_RUNNING)
		return true;
	if (!g->held_by && is_taken(g))
		return who == HELD_BY_BACKUP; /* a copy can wait for its end */
	if (!g->held_by && mark_frozen(g, &err) < 0)
		return true;
	g->held_by |= who;
	return cgroup_freeze(&g->host->cgroups, g->spec.id, true, &err) != 1;
}

void disk_snapshot_unhold(struct guest *g, enum held_by who)
{
	if (!(g->held_by & who))
		return;
	g->held_by &= ~(unsigned)who;
	if (g->held_by || is_still_frozen(g)) /* let_go() does the rest */
		return;
	if (!g->is_frozen && !thaw(g->host, g->spec.id))
		return; /* the mark stays: the next broker lets it go on */
	(void)unlinkat(g->dir_fd, FROZEN_MARK, 0);
}

int disk_snapshot_freeze(struct guest *g, bool on, struct err *err)
{
	if (!on)
		g->kind->go_on(g);
	list_for_each (&takings, const struct taking, t, link)
		if (t->g == g && t->is_frozen) { /* let_go() does the rest */
			g->is_frozen = on;
			return on ? cgroup_freeze(&g->host->cgroups, g->spec.id, true, err) : 0;
		}
	g->is_frozen = on;
	if (!on && g->held_by)
		return 0; /* disk_snapshot_unhold() does it */
	return cgroup_freeze(&g->host->cgroups, g->spec.id, on, err);
}

void disk_snapshot_adopt(struct guest *g)
{
	if (unlinkat(g->dir_fd, FROZEN_MARK, 0) == 0)
		(void)thaw(g->host, g->spec.id);
}

void disk_snapshot_on_end(struct guest *g)
{
	list_for_each (&takings, struct taking, t, link)
		if (t->g == g) {
			t->g = NULL;
			t->is_lost = true;
		}
}

void disk_snapshot_take_end(struct guest_host *host)
{
	list_for_each (&takings, struct taking, t, link) {
		let_go(t);
		loop_child_remove(t->child);
		loop_io_removep(&t->io);
		loop_timer_free(t->timer);
		list_remove(&t->link);
		taking_free(host->loop, t);
	}
}
