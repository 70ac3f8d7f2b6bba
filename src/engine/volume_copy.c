// SPDX-License-Identifier: Apache-2.0
/*
 * A copy of a volume:
 *
 *	waiting --> holding --> cloning --> writing --> (told)
 *
 * The files are those of one moment. The clone is one ioctl, but it writes out dirty files one by
 * one before that moment, so of two files that a program writes in turn the older bytes could come
 * later. So the guests that write to the volume are frozen for it, one copy at a time.
 *
 * The rest is done while they run. A child does it, and the ioctl, since both wait for the disk.
 * Nobody but the child sees the clone: it lies in a directory of its own, as the copies of
 * snapshots do (disk_snapshot_clone.c), and gets the volume's name as the last step. If this broker
 * dies before, the child dies too, and the next start removes the directory by its name.
 *
 * A clone shares all bytes with its source. Simple quotas count a byte for the volume that wrote
 * it, as long as anything refers to it. So what the source overwrites or removes would go on to
 * count for the source until the copy is gone: it would be full of what nobody sees in it. And the
 * copy could hold more than its size. So the child writes each byte once more, and touches each
 * inode: then they are the copy's own. Older quotas count what a volume refers to, whoever wrote
 * it: there the copy goes on to share.
 *
 * The tree is the guests': it may be of any depth, and a file may have many names. Each inode is
 * written once.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/fs/walk.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/guest/disk_snapshot_private.h"
#include "engine/guest/guest.h"
#include "engine/guest/volume.h"
#include "engine/jail_host.h"
#include "engine/layer/kept_layer.h"
#include "engine/linux/btrfs.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <uthash.h>

#define COPIES_MAX   16 /* at once; the gateway allows each project fewer */
#define PIECE        (1024 * 1024)
#define LOOK_US      1000U
#define HOLD_MAX_US  (10 * SECOND_US) /* as a snapshot has it */
#define CLONE_MAX_US (60 * SECOND_US)
#define MOST_US      (3000 * SECOND_US) /* less than the gateway waits */
#define NICENESS     10                 /* nobody's command waits for a copy */

struct volume_copy_job {
	struct list link;
	struct guest_host *host;
	struct volume_copy_spec spec;
	char place[ID_SIZE];
	struct loop_child *child; /* NULL: it waits, or guests are being frozen for it */
	int cloned_fd;            /* the child's end of it is closed when the clone is there */
	struct loop_io *io;
	volume_copied_fn fn;
	void *arg;
};

static struct list copies = LIST_INIT(copies);
static struct volume_copy_job *first; /* guests are held for it; or NULL */
static struct loop_timer *timer;
static uint64_t hold_until_us;

/* From here to run(): in the child. */

/* A file with several names that was written already. */
struct seen {
	ino_t ino;
	UT_hash_handle hh;
};

struct rewrite {
	struct seen *seen;
	char *piece;
	uint64_t until_us;
};

static int write_again(int fd, const struct rewrite *o, off_t from, off_t to)
{
	while (from < to) {
		const size_t most = (size_t)MIN((off_t)PIECE, to - from);
		const ssize_t n = pread(fd, o->piece, most, from);

		if (clock_steady_us() > o->until_us)
			return -ETIMEDOUT;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		for (ssize_t at = 0; at < n;) {
			const ssize_t done = pwrite(fd, o->piece + at, (size_t)(n - at), from + at);

			if (done < 0)
				return -errno;
			at += done;
		}
		from += n;
	}
	return 0;
}

/* Holes stay holes. */
static int own_bytes(int dir_fd, const char *name, const struct rewrite *o)
{
	auto_fd int fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	off_t from = 0, to;
	int r = fd < 0 ? -errno : 0;

	while (r == 0) {
		from = lseek(fd, from, SEEK_DATA);
		if (from < 0)
			return errno == ENXIO ? 0 : -errno;
		to = lseek(fd, from, SEEK_HOLE);
		r = to < 0 ? -errno : write_again(fd, o, from, to);
		from = to;
	}
	return r;
}

static bool is_new(struct rewrite *o, const struct stat *st)
{
	struct seen *s;

	if (st->st_nlink < 2)
		return true;
	HASH_FIND(hh, o->seen, &st->st_ino, sizeof(st->st_ino), s);
	if (s)
		return false;
	s = xnew0(struct seen);
	s->ino = st->st_ino;
	HASH_ADD(hh, o->seen, ino, sizeof(s->ino), s);
	return true;
}

static int own_entry(struct rewrite *o, const struct walk_entry *e)
{
	const struct timespec times[2] = {e->st.st_atim, e->st.st_mtim};
	int r = 0;

	if (e->is_leaving)
		return 0;
	if (S_ISREG(e->st.st_mode)) {
		if (!is_new(o, &e->st))
			return 0;
		r = own_bytes(e->dir_fd, e->name, o);
	}
	if (r == 0 && utimensat(e->dir_fd, e->name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

/* What it allocates goes with the child. */
static int own(int subvol_fd)
{
	struct rewrite o = {.piece = xnew0n(char, PIECE), .until_us = clock_steady_us() + MOST_US};
	int fd = openat(subvol_fd, VOLUME_FILES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct walk_entry e;
	struct walk *w;
	struct err err = {0};
	int r = fd < 0 ? -errno : walk_new(fd, /* is_lenient= */ false, &w, &err);

	while (r == 0 && (r = walk_next(w, &e, &err)) > 0)
		r = own_entry(&o, &e);
	return r;
}

/* The limit comes last: while it is written, it may need a little more than it holds. */
static int set_up(const struct volume_copy_job *c, int fd)
{
	struct guest_host *host = c->host;
	auto_free char *layer = xasprintf("%s/%s", c->place, DISK_SNAPSHOT_FILES);
	int r = 0;

	if (c->spec.owner)
		r = owners_assign(&host->owners, &host->storage, layer, c->spec.owner, NULL);
	if (r == 0)
		r = kept_layer_mark(fd, c->spec.made.keeper, NULL);
	if (r == 0 && host->storage.counts_once)
		r = own(fd);
	return r == 0 ? btrfs_limit(fd, c->spec.made.bytes) : r;
}

static int make(const struct volume_copy_job *c, int source_fd, int place_fd, int told_fd)
{
	auto_fd int fd = -1;
	int r = btrfs_clone(place_fd, source_fd, DISK_SNAPSHOT_FILES);

	(void)close(told_fd);
	if (r < 0)
		return r;
	fd = disk_snapshot_open_dir(place_fd, DISK_SNAPSHOT_FILES);
	r = fd < 0 ? -errno : set_up(c, fd);
	if (r == 0 && renameat2(place_fd, DISK_SNAPSHOT_FILES, c->host->storage.fd, c->spec.made.id,
	                        RENAME_NOREPLACE) < 0)
		r = -errno;
	return r;
}

/* An errno for the exit status. */
static int run(const struct volume_copy_job *c, int told_fd)
{
	int storage_fd = c->host->storage.fd;
	auto_fd int source_fd = disk_snapshot_open_dir(storage_fd, c->spec.source);
	auto_fd int place_fd = -1;
	int r;

	(void)setpriority(PRIO_PROCESS, 0, NICENESS);
	if (source_fd < 0 || mkdirat(storage_fd, c->place, 0700) < 0)
		return errno;
	place_fd = disk_snapshot_open_dir(storage_fd, c->place);
	r = place_fd < 0 ? -errno : make(c, source_fd, place_fd, told_fd);
	disk_snapshot_remove_dir(c->host, c->place); /* with a copy that failed */
	return -r;
}

static void job_free(struct volume_copy_job *c)
{
	list_remove(&c->link);
	loop_io_removep(&c->io);
	close_fd(&c->cloned_fd);
	free(c);
}

static void on_swept(void *arg)
{
	(void)arg;
}

/* A child that was killed has removed nothing. */
static void sweep(struct guest_host *host, const char *place)
{
	if (disk_snapshot_start_removal(host, place, on_swept, NULL) < 0)
		log_warn("volume.copy_left", "place=%s", place); /* the next start removes it */
}

static int tell(const struct volume_copy_spec *spec, int error, struct err *err)
{
	if (error == ENOENT)
		return err_set(err, ERR_CONFLICT, error, "volume %s was removed meanwhile",
		               spec->source);
	if (error == EDQUOT) {
		(void)err_set(err, ERR_HOST_DISK_FULL, error,
		              "the project's share of the host's disk has no room for the copy");
		return err_hint(err, "remove volumes or sandboxes of the project");
	}
	if (error == ETIMEDOUT)
		return err_set(err, ERR_CAPACITY, error, "the copy took longer than %d minutes",
		               (int)(MOST_US / SECOND_US / 60));
	return err_set(err, error == ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, error,
	               "cannot copy volume %s", spec->source);
}

static bool writes_to(const struct guest *g, const char *id)
{
	for (size_t i = 0; i < VOLUMES_MAX; i++)
		if (strcmp(g->spec.volumes[i].id, id) == 0 && !g->spec.volumes[i].is_read_only)
			return true;
	return false;
}

static bool hold_writers(const struct volume_copy_job *c)
{
	bool is_still = true;

	list_for_each (&c->host->guests, struct guest, g, link)
		if (writes_to(g, c->spec.source))
			is_still &= disk_snapshot_hold(g, HELD_BY_COPY);
	return is_still;
}

static void look(struct loop *loop, void *arg);

static void begin_next(struct guest_host *host)
{
	if (first)
		return;
	list_for_each (&copies, struct volume_copy_job, c, link)
		if (!first && !c->child)
			first = c;
	if (!first)
		return;
	if (!timer)
		timer = loop_timer_new(host->loop, look, NULL);
	hold_until_us = loop_now_us(host->loop) + HOLD_MAX_US;
	loop_timer_set_in(timer, 0);
}

static void let_go(struct volume_copy_job *c)
{
	struct guest_host *host = c->host;

	if (first != c)
		return;
	first = NULL;
	list_for_each (&host->guests, struct guest, g, link)
		disk_snapshot_unhold(g, HELD_BY_COPY);
	begin_next(host);
}

static void on_cloned(struct loop *loop, uint32_t events, void *arg)
{
	struct volume_copy_job *c = arg;

	(void)loop;
	(void)events;
	loop_io_removep(&c->io);
	let_go(c);
}

static void finish(struct volume_copy_job *c, const struct err *err)
{
	list_remove(&c->link);
	list_init(&c->link);
	let_go(c);
	c->fn(err, c->arg);
	job_free(c);
}

static void on_copied(struct loop *loop, int wait_status, void *arg)
{
	struct volume_copy_job *c = arg;
	int error = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : EIO;
	struct err err;

	(void)loop;
	if (!WIFEXITED(wait_status))
		sweep(c->host, c->place);
	if (error)
		(void)tell(&c->spec, error, &err);
	finish(c, error ? &err : NULL);
}

static int start(struct volume_copy_job *c, struct err *err)
{
	int fds[2], pidfd = -1, r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a pipe");
	c->cloned_fd = fds[0];
	pid = disk_snapshot_fork(&pidfd);
	if (pid == 0)
		_exit(run(c, fds[1]));
	(void)close(fds[1]);
	if (pid < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a child");
	r = loop_child_take(c->host->loop, pidfd, on_copied, c, &c->child);
	if (r == 0 && loop_io_add(c->host->loop, c->cloned_fd, EPOLLIN, on_cloned, c, &c->io) < 0)
		log_warn("volume.copy_unwatched", "place=%s", c->place); /* its end tells */
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch a child") : 0;
}

/* Freezes the writers, then starts the child; and ends a child whose clone takes too long. */
static void look(struct loop *loop, void *arg)
{
	struct volume_copy_job *c = first;
	struct err err;

	(void)arg;
	if (!c)
		return;
	if (c->child) {
		(void)pidfd_send_signal(loop_child_pidfd(c->child), SIGKILL, NULL, 0);
		let_go(c); /* on_copied() tells */
		return;
	}
	if (hold_writers(c)) {
		loop_timer_set_in(timer, CLONE_MAX_US);
		if (start(c, &err) < 0)
			finish(c, &err);
		return;
	}
	if (loop_now_us(loop) < hold_until_us) {
		loop_timer_set_in(timer, LOOK_US);
		return;
	}
	(void)err_set(&err, ERR_UNAVAILABLE, EBUSY,
	              "a process that writes to volume %s is held up in the kernel",
	              c->spec.source);
	(void)err_hint(&err, "try again");
	finish(c, &err);
}

static size_t count(void)
{
	size_t n = 0;

	list_for_each (&copies, const struct volume_copy_job, c, link)
		n++;
	return n;
}

int volume_copy(struct guest_host *host, const struct volume_copy_spec *spec, volume_copied_fn fn,
                void *arg, struct err *err)
{
	struct volume_copy_job *c;

	if (!host->storage.is_btrfs)
		return volume_refuse_plain(err);
	if (count() >= COPIES_MAX) {
		(void)err_set(err, ERR_CAPACITY, EBUSY, "%d volumes are being copied", COPIES_MAX);
		return err_hint(err, "try again when one of them is done");
	}
	c = xnew0(struct volume_copy_job);
	*c = (struct volume_copy_job){
		.host = host, .spec = *spec, .fn = fn, .arg = arg, .cloned_fd = -1};
	id_make(c->place, "roll");
	list_append(&copies, &c->link);
	begin_next(host);
	return 0;
}

void volume_copies_close(void)
{
	list_for_each (&copies, struct volume_copy_job, c, link) {
		if (first == c)
			list_for_each (&c->host->guests, struct guest, g, link)
				disk_snapshot_unhold(g, HELD_BY_COPY);
		loop_child_remove(c->child);
		job_free(c);
	}
	first = NULL;
	loop_timer_free(take_ptr(timer));
}
