// SPDX-License-Identifier: Apache-2.0
/*
 * What a backup needs of the guests: read-only copies of all files that are kept, of one moment.
 *
 *	none --> holding --> freezing --> frozen --> releasing --> none
 *
 * Guests that write to kept files are frozen for the moment. Their fsync() does not reach the disk
 * (their overlays are `volatile`), so a copy of a running guest could have a later write and lack
 * an earlier one. A guest that does not freeze in time, because the kernel holds it up, is copied
 * as it is.
 *
 * A read-only copy of a subvolume is one ioctl, which writes out dirty data and then waits for a
 * transaction of the filesystem. Copies that are made at the same time share a transaction, but not
 * in one directory (disk_snapshot_clone.c). So each copy has its own directory, and WORKERS
 * processes make them in parallel.
 *
 * A copy cannot be removed while `btrfs send` reads it, or while a worker of a broker that was
 * killed still makes one. On a busy host both may take long to die. So a removal may leave copies
 * behind; the next removal, or a timer, removes them.
 */
#include "engine/guest/backup.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/list.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/disk_snapshot_private.h"
#include "engine/layer/kept_layer.h"
#include "engine/linux/btrfs.h"
#include "engine/linux/dir_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>

#define PLACE           "backup"
#define WORKERS         8
#define FREEZE_MAX      (60 * SECOND_US)
#define HOLD_MAX        (2 * SECOND_US)
#define LOOK_US         2000U
#define FREE_LEAST      (UINT64_C(64) << 20)
#define REMOVE_TRIES    50
#define REMOVE_PAUSE_NS 100000000L
#define AGAIN_US        (2 * SECOND_US)

struct pin {
	struct list link;
	char id[ID_SIZE];
	uint64_t bytes;
};

static struct {
	enum { NONE, HOLDING, FREEZING, FROZEN, RELEASING } state;
	struct loop_child *child;
	struct loop_timer *look; /* checks whether all are frozen, then whether it takes too long */
	struct loop_timer *again; /* for what a removal has left */
	uint64_t hold_until_us;
	int result_fd;
	backup_fn fn;
	guest_gone_fn gone;
	void *arg;
	struct list pins;
} now = {.result_fd = -1, .pins = LIST_INIT(now.pins)};

static bool is_kept(struct guest_host *host, const char *name)
{
	uint64_t keeper;

	if (id_is_valid(name, "vo") || id_is_valid(name, "sn"))
		return true;
	return id_is_valid(name, "sb") && kept_layer_read(&host->storage, name, &keeper) > 0;
}

/* From here to run_freezing(): in a child. */

/* Fails with EPERM while the copy is being read. */
static int remove_copy(int dir_fd)
{
	const struct timespec pause = {.tv_nsec = REMOVE_PAUSE_NS};
	int r = btrfs_subvol_delete(dir_fd, DISK_SNAPSHOT_FILES);

	for (unsigned i = 0; r == -EPERM && i < REMOVE_TRIES; i++) {
		(void)nanosleep(&pause, NULL);
		r = btrfs_subvol_delete(dir_fd, DISK_SNAPSHOT_FILES);
	}
	return r == -ENOENT || r == -ENOTDIR ? 0 : r;
}

static int remove_place(int parent_fd)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;
	int r = dir_open(&dir, parent_fd, PLACE), first = 0;

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	while ((name = dir_next(&dir))) {
		auto_fd int fd = disk_snapshot_open_dir(dir.fd, name);

		r = fd < 0 ? 0 : remove_copy(fd);
		if (r == 0)
			r = dir_tree_remove(dir.fd, name);
		first = first ? first : r;
	}
	first = first ? first : dir.error;
	if (first == 0 && unlinkat(parent_fd, PLACE, AT_REMOVEDIR) < 0)
		first = -errno;
	return first;
}

static int remove_all(struct guest_host *host)
{
	int r = remove_place(host->storage.fd);
	int s = remove_place(host->images.templates_fd);

	return r < 0 ? r : s;
}

/* Links the plain files of one directory; the caller handles subdirectories. */
static int link_files(int from_fd, int to_fd)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;
	struct stat st;
	int r = dir_open(&dir, from_fd, ".");

	while (r == 0 && (name = dir_next(&dir))) {
		if (fstatat(dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			r = errno == ENOENT ? 0 : -errno;
		else if (S_ISREG(st.st_mode) && linkat(dir.fd, name, to_fd, name, 0) < 0)
			r = errno == ENOENT ? 0 : -errno;
	}
	return r < 0 ? r : dir.error;
}

static int make_dir(int parent_fd, const char *name, int *ret_fd)
{
	if (mkdirat(parent_fd, name, 0700) < 0)
		return -errno;
	*ret_fd = disk_snapshot_open_dir(parent_fd, name);
	return *ret_fd < 0 ? -errno : 0;
}

static int link_memory(int from_fd, int to_fd)
{
	auto_fd int memory_fd = disk_snapshot_open_dir(from_fd, DISK_SNAPSHOT_MEMORY), copy_fd = -1;
	int r;

	if (memory_fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = make_dir(to_fd, DISK_SNAPSHOT_MEMORY, &copy_fd);
	return r < 0 ? r : link_files(memory_fd, copy_fd);
}

static int freeze_snapshot(int from_fd, int to_fd)
{
	auto_fd int files_fd = disk_snapshot_open_dir(from_fd, DISK_SNAPSHOT_FILES);
	int r = files_fd < 0 ? -errno : btrfs_snapshot(to_fd, files_fd, DISK_SNAPSHOT_FILES);

	if (r == 0)
		r = link_files(from_fd, to_fd);
	return r < 0 ? r : link_memory(from_fd, to_fd);
}

static int freeze_one(struct guest_host *host, int place_fd, const char *name, struct err *err)
{
	auto_fd int from_fd = disk_snapshot_open_dir(host->storage.fd, name), to_fd = -1;
	int r;

	if (from_fd < 0 && errno == ENOENT)
		return 0; /* an earlier request has removed it */
	r = from_fd < 0 ? -errno : make_dir(place_fd, name, &to_fd);
	if (r == 0)
		r = id_is_valid(name, "sn") ? freeze_snapshot(from_fd, to_fd)
		                            : btrfs_snapshot(to_fd, from_fd, DISK_SNAPSHOT_FILES);
	if (r < 0)
		return err_set(err, r == -ENOSPC || r == -EDQUOT ? ERR_DISK_FULL : ERR_INTERNAL, -r,
		               "cannot freeze '%s' for the backup", name);
	return 0;
}

/* Depends only on the name, since names come and go while the workers list them. */
static unsigned worker_of(const char *name)
{
	uint32_t hash = 2166136261U;

	for (const char *p = name; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619U;
	return hash % WORKERS;
}

static int freeze_share(struct guest_host *host, int place_fd, unsigned worker, struct err *err)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;
	int r = dir_open(&dir, host->storage.fd, ".");

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot list what is kept");
	while (r == 0 && (name = dir_next(&dir)))
		if (worker_of(name) == worker && is_kept(host, name))
			r = freeze_one(host, place_fd, name, err);
	if (r == 0 && dir.error < 0)
		r = err_set(err, ERR_INTERNAL, -dir.error, "cannot list what is kept");
	return r;
}

static int freeze_layers(struct guest_host *host, struct err *err)
{
	auto_fd int place_fd = -1;
	pid_t pids[WORKERS];
	int r = make_dir(host->storage.fd, PLACE, &place_fd), status;

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot make a place for the backup");
	for (unsigned i = 0; i < WORKERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct err failure = {0};

			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (freeze_share(host, place_fd, i, &failure) == 0)
				_exit(0);
			(void)!fd_write_all(now.result_fd, &failure, sizeof(failure));
			_exit(1);
		}
	}
	for (unsigned i = 0; i < WORKERS; i++)
		if (pids[i] < 0 || waitpid(pids[i], &status, 0) < 0 || status != 0)
			r = -EIO;
	/* A failed worker has already written the reason to the pipe. */
	return r < 0 ? err_set(err, ERR_INTERNAL, 0, "cannot freeze what is kept") : 0;
}

static int freeze_images(struct guest_host *host, struct err *err)
{
	const int templates_fd = host->images.templates_fd;
	auto_dir struct dir_reader dir = {.fd = -1};
	auto_fd int place_fd = -1;
	struct digest digest;
	const char *name;
	bool is_kept;
	int r = make_dir(templates_fd, PLACE, &place_fd);

	if (r == 0)
		r = dir_open(&dir, templates_fd, ".");
	while (r == 0 && (name = dir_next(&dir))) {
		auto_fd int from_fd = -1, to_fd = -1;
		char hex[DIGEST_HEX];

		if (!image_parse_name(name, &digest, &is_kept))
			continue;
		/* One that is only kept for others becomes one like all; the next start hides it
		 * again. */
		digest_to_hex(&digest, hex);
		from_fd = disk_snapshot_open_dir(templates_fd, name);
		r = from_fd < 0 ? -errno : make_dir(place_fd, hex, &to_fd);
		if (r == 0)
			r = link_files(from_fd, to_fd);
		else if (r == -EEXIST)
			r = 0;
	}
	if (r == 0)
		r = dir.error;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot freeze the templates") : 0;
}

static int run_freezing(struct guest_host *host)
{
	struct err err = {0};
	int r = remove_all(host); /* of a release that could not */

	if (r < 0)
		(void)err_set(&err, ERR_CONFLICT, -r, "an earlier backup cannot be removed");
	else
		r = freeze_layers(host, &err);
	if (r == 0)
		r = freeze_images(host, &err);
	if (r == 0)
		return 0;
	(void)!fd_write_all(now.result_fd, &err, sizeof(err));
	return 1;
}

static void drop_pins(struct guest_host *host)
{
	list_for_each (&now.pins, struct pin, p, link) {
		disk_snapshot_lower_limit(host, p->id);
		list_remove(&p->link);
		free(p);
	}
}

static void take_pins(struct guest_host *host)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;

	if (!host->storage.counts_once || dir_open(&dir, host->storage.fd, PLACE) < 0)
		return;
	while ((name = dir_next(&dir))) {
		struct pin *p;

		if (!id_is_valid(name, "sb"))
			continue;
		p = xnew0(struct pin);
		(void)snprintf(p->id, sizeof(p->id), "%s", name);
		p->bytes = storage_usage(&host->storage, name);
		list_append(&now.pins, &p->link);
		disk_snapshot_set_limit(host, name);
	}
	dir_tell(&dir, "frozen layers");
}

uint64_t backup_pinned(const char *id)
{
	list_for_each (&now.pins, const struct pin, p, link)
		if (strcmp(p->id, id) == 0)
			return p->bytes;
	return 0;
}

static int start_child(struct guest_host *host, int (*run)(struct guest_host *host),
                       loop_child_fn on_exit, struct err *err)
{
	int fds[2], pidfd = -1, r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a pipe");
	pid = disk_snapshot_fork(&pidfd);
	if (pid == 0) {
		now.result_fd = fds[1];
		_exit(run(host));
	}
	(void)close(fds[1]);
	now.result_fd = fds[0];
	r = pid < 0 ? -errno : loop_child_take(host->loop, pidfd, on_exit, host, &now.child);
	if (r == 0)
		return 0;
	close_fd(&now.result_fd);
	return err_set(err, ERR_CAPACITY, -r, "cannot make a child");
}

static void tell(const struct backup_counts *counts, const struct err *err)
{
	backup_fn fn = now.fn;

	now.fn = NULL;
	fn(counts, err, now.arg);
}

static uint64_t count_names(int parent_fd)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	uint64_t n = 0;

	if (dir_open(&dir, parent_fd, PLACE) == 0)
		while (dir_next(&dir))
			n++;
	return n;
}

static bool writes_to_kept(const struct guest *g)
{
	bool has_volume = false;

	for (size_t i = 0; i < VOLUMES_MAX && g->spec.volumes[i].id[0]; i++)
		has_volume |= !g->spec.volumes[i].is_read_only;
	return g->spec.keeper || has_volume;
}

static bool hold_all(struct guest_host *host)
{
	bool is_still = true;

	list_for_each (&host->guests, struct guest, g, link)
		if (writes_to_kept(g))
			is_still &= disk_snapshot_hold(g, HELD_BY_BACKUP);
	return is_still;
}

static void let_all_go(struct guest_host *host)
{
	list_for_each (&host->guests, struct guest, g, link)
		disk_snapshot_unhold(g, HELD_BY_BACKUP);
}

static void on_nobody(void *arg)
{
	(void)arg;
}

static void on_frozen(struct loop *loop, int wait_status, void *arg)
{
	struct guest_host *host = arg;
	const bool is_awaited = now.fn != NULL; /* else on_late() has told */
	struct err err = {0};

	(void)loop;
	now.child = NULL;
	let_all_go(host);
	loop_timer_free(take_ptr(now.look));
	if (wait_status != 0 && fd_read_all(now.result_fd, &err, sizeof(err)) < 0)
		(void)err_set(&err, ERR_INTERNAL, 0, "the backup's child ended early");
	close_fd(&now.result_fd);
	now.state = FROZEN; /* or what there is of it, for backup_release() */
	if (!is_awaited) {
		(void)backup_release(host, on_nobody, NULL);
		return;
	}
	if (wait_status != 0) {
		tell(NULL, &err);
		return;
	}
	take_pins(host);
	tell(&(struct backup_counts){.layers = count_names(host->storage.fd),
	                             .images = count_names(host->images.templates_fd)},
	     NULL);
}

static void on_late(struct guest_host *host)
{
	struct err err;

	(void)pidfd_send_signal(loop_child_pidfd(now.child), SIGKILL, NULL, 0);
	let_all_go(host);
	(void)err_set(&err, ERR_UNAVAILABLE, ETIMEDOUT,
	              "the host's disk was too slow to freeze what is kept");
	(void)err_hint(&err, "try again when there is less to write");
	tell(NULL, &err);
}

static void look(struct loop *loop, void *arg)
{
	struct guest_host *host = arg;
	struct err err;

	if (now.state == FREEZING) {
		on_late(host);
		return;
	}
	if (!hold_all(host) && loop_now_us(loop) < now.hold_until_us) {
		loop_timer_set_in(now.look, LOOK_US);
		return;
	}
	now.state = FREEZING;
	loop_timer_set_in(now.look, FREEZE_MAX);
	if (start_child(host, run_freezing, on_frozen, &err) == 0)
		return;
	let_all_go(host);
	loop_timer_free(take_ptr(now.look));
	now.state = NONE;
	tell(NULL, &err);
}

int backup_freeze(struct guest_host *host, backup_fn fn, void *arg, struct err *err)
{
	struct statvfs disk;

	if (!host->storage.is_btrfs) {
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "plain storage cannot be frozen for a backup");
		return err_hint(err,
		                "start the daemon without --plain-storage, or stop it with all "
		                "its sandboxes and copy the data directory");
	}
	if (now.state != NONE)
		return err_set(err, ERR_CONFLICT, EBUSY, "a backup is being made already");
	if (fstatvfs(host->storage.fd, &disk) == 0 &&
	    (uint64_t)disk.f_bavail * disk.f_frsize < FREE_LEAST)
		return err_set(err, ERR_DISK_FULL, ENOSPC, "the host's disk is full");
	now.fn = fn;
	now.arg = arg;
	now.state = HOLDING;
	now.hold_until_us = loop_now_us(host->loop) + HOLD_MAX;
	now.look = loop_timer_new(host->loop, look, host);
	loop_timer_set_in(now.look, 0); /* from the loop, after this call has returned */
	return 0;
}

static int run_release(struct guest_host *host)
{
	return remove_all(host) < 0;
}

static void remove_later(struct guest_host *host);

static void on_released(struct loop *loop, int wait_status, void *arg)
{
	struct guest_host *host = arg;
	(void)loop;
	now.child = NULL;
	close_fd(&now.result_fd);
	drop_pins(host);
	now.state = NONE;
	if (wait_status != 0)
		remove_later(host);
	now.gone(now.arg);
}

int backup_release(struct guest_host *host, guest_gone_fn gone, void *arg)
{
	struct err err;

	if (now.state != FROZEN)
		return 0;
	now.gone = gone;
	now.arg = arg;
	if (start_child(host, run_release, on_released, &err) == 0) {
		now.state = RELEASING;
		return 1;
	}
	log_warn("backup.no_child", "error='%s'", err.message);
	drop_pins(host);
	now.state = NONE;
	remove_later(host);
	return 0;
}

static void on_nobody_waits(struct loop *loop, void *arg)
{
	(void)loop;
	loop_timer_free(take_ptr(now.again));
	if (now.state != NONE)
		return; /* a backup begins and ends with a removal */
	now.state = FROZEN;
	(void)backup_release(arg, on_nobody, NULL);
}

static void remove_later(struct guest_host *host)
{
	log_warn("backup.leftover", "message='it is removed later'");
	if (!now.again)
		now.again = loop_timer_new(host->loop, on_nobody_waits, host);
	loop_timer_set_in(now.again, AGAIN_US);
}

void backup_sweep(struct guest_host *host)
{
	if (host->storage.is_btrfs && remove_all(host) < 0)
		remove_later(host);
}

void backup_leave(struct guest_host *host)
{
	if (now.child) {
		int pidfd = loop_child_pidfd(now.child);

		(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
		(void)waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){0}, WEXITED);
		loop_child_remove(take_ptr(now.child));
	}
	let_all_go(host);
	loop_timer_free(take_ptr(now.look));
	loop_timer_free(take_ptr(now.again));
	close_fd(&now.result_fd);
	list_for_each (&now.pins, struct pin, p, link) {
		list_remove(&p->link);
		free(p);
	}
	if (now.state != NONE && host->storage.is_btrfs && remove_all(host) < 0)
		log_warn("backup.leftover", "message='the next start removes it'");
	now.state = NONE;
}
