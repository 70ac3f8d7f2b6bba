// SPDX-License-Identifier: Apache-2.0
#include "engine/layer/room.h"

#include "base/log.h"
#include "base/units.h"
#include "engine/layer/backing.h"
#include "engine/linux/btrfs.h"
#include "engine/linux/syscalls.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#define LOOK_US        UINT64_C(500000)
#define FRESH_US       UINT64_C(100000)  /* a look that is not older is still good */
#define TELL_US        UINT64_C(1000000) /* figures that changed, though the state did not */
#define TRY_AGAIN_US   UINT64_C(5000000)
#define RESERVE_MOST   GIB
#define HEADROOM_MOST  (2 * GIB)
#define HEADROOM_LEAST (128 * MIB)
#define STEP           (256 * MIB)
#define STEP_LEAST     (16 * MIB)
#define UNALLOCATED    (512 * MIB) /* for the next chunks, of metadata too */
#define LAYERS_LEAST   (64 * MIB)  /* with less free they are full */

enum { CHILD_DONE, CHILD_FAILED, CHILD_CANNOT_ALLOCATE };

uint64_t room_reserve(uint64_t wanted, uint64_t disk_bytes)
{
	return wanted > 0 ? wanted : MIN(disk_bytes / 20, RESERVE_MOST);
}

uint64_t room_headroom(uint64_t wanted, uint64_t disk_bytes)
{
	return wanted > 0 ? MAX(wanted, HEADROOM_LEAST) : MIN(disk_bytes / 8, HEADROOM_MOST);
}

/* What the disk can give without the reserve, and a bit less, so that growing does not fill it. */
static uint64_t left_to_take(const struct room_figures *f)
{
	uint64_t kept = f->reserve + f->reserve / 4 + f->missing;

	return f->free > kept ? f->free - kept : 0;
}

uint64_t room_growth(const struct room_figures *f)
{
	uint64_t unallocated = MIN(UNALLOCATED, f->headroom);
	uint64_t lacking = f->layers_free < f->headroom ? f->headroom - f->layers_free : 0;
	uint64_t by;

	if (!f->can_grow || f->is_read_only)
		return 0;
	if (f->layers_unallocated < unallocated)
		lacking = MAX(lacking, unallocated - f->layers_unallocated);
	if (lacking == 0)
		return 0;
	by = (lacking + STEP - 1) / STEP * STEP;
	by = MIN(by, left_to_take(f) / STEP_LEAST * STEP_LEAST);
	return by;
}

enum disk_state room_judge(const struct room_figures *f, enum disk_state before)
{
	uint64_t kept = f->reserve + f->missing + (before == DISK_OK ? 0 : f->reserve / 8);
	uint64_t least = LAYERS_LEAST + (before == DISK_OK ? 0 : LAYERS_LEAST / 8);

	if (f->is_read_only)
		return DISK_READ_ONLY;
	if (f->free < kept)
		return DISK_FULL;
	if (f->layers > 0 && f->layers_free < least && room_growth(f) == 0)
		return DISK_FULL;
	return DISK_OK;
}

uint64_t room_to_hold(const struct room_figures *f)
{
	uint64_t whole = f->reserve / 2 / STEP_LEAST * STEP_LEAST, left = f->free - f->held;

	if (f->held > 0)
		return left < f->reserve / 8 ? 0 : f->held;
	return left > f->reserve + f->reserve / 4 + f->missing ? whole : 0;
}

/* What is left for the next write. Dirty pages have taken their room already, which may be
 * gigabytes that statfs() still counts as free. */
static uint64_t layers_left(const struct storage *s, const struct statvfs *layers)
{
	uint64_t bytes = (uint64_t)layers->f_bavail * layers->f_frsize;

	return bytes - MIN(bytes, btrfs_in_memory(s->fd));
}

static bool measure(const struct room *room, struct room_figures *ret)
{
	const struct storage *s = room->storage;
	struct statvfs data, layers;
	struct btrfs_device device;
	struct stat held = {0};
	uint64_t size;

	if (room->held_fd >= 0)
		(void)fstat(room->held_fd, &held);
	if (fstatvfs(s->data_fd, &data) < 0 || fstatvfs(s->fd, &layers) < 0)
		return false;
	size = (uint64_t)data.f_blocks * data.f_frsize;
	*ret = (struct room_figures){
		.held = (uint64_t)held.st_blocks * 512,
		.free = (uint64_t)data.f_bavail * data.f_frsize + (uint64_t)held.st_blocks * 512,
		.reserve = room_reserve(room->reserve_wanted, size),
		.headroom = room_headroom(room->headroom_wanted, size),
		.is_read_only = (layers.f_flag & ST_RDONLY) != 0,
	};
	if (!s->is_mounted) /* they are beside our own files */
		return true;
	ret->layers = (uint64_t)layers.f_blocks * layers.f_frsize;
	ret->layers_free = layers_left(s, &layers);
	if (s->image_fd < 0 || btrfs_device(s->fd, &device) < 0)
		return true;
	ret->can_grow = true;
	ret->layers_unallocated = device.bytes - MIN(device.bytes, device.allocated_bytes);
	ret->missing = backing_missing(s->image_fd, device.bytes);
	return true;
}

static void on_child(struct loop *loop, int wait_status, void *arg)
{
	struct room *room = arg;
	int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : CHILD_FAILED;

	room->child = NULL;
	if (code == CHILD_FAILED) {
		room->next_try_us = loop_now_us(loop) + TRY_AGAIN_US;
		log_warn("room.not_resized", "layers_bytes=%" PRIu64 " free_bytes=%" PRIu64,
		         room->now.layers_bytes, room->now.free_bytes);
		return;
	}
	room->is_fitted |= room->is_fitting;
	if (code == CHILD_CANNOT_ALLOCATE)
		room->cannot_allocate = true;
	loop_timer_set_in(room->timer, 0); /* there may be more to do */
}

/* What a child does. */
struct job {
	enum { JOB_GROW, JOB_FIT, JOB_HOLD } what;
	uint64_t bytes; /* to grow by, to leave behind the last chunk, to hold */
};

static int do_job(const struct room *room, const struct job *job)
{
	const struct storage *s = room->storage;

	switch (job->what) {
	case JOB_GROW:
		return backing_grow(s->image_fd, s->fd, job->bytes);
	case JOB_FIT:
		return backing_fit(s->image_fd, s->fd, job->bytes);
	case JOB_HOLD:
		break;
	}
	return backing_hold(room->held_fd, job->bytes);
}

static void start_child(struct room *room, const struct job *job)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD, .exit_signal = SIGCHLD, .pidfd = (uint64_t)(uintptr_t)&pidfd};
	pid_t pid = sys_clone3(&args);
	int r;

	if (pid < 0)
		return;
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		r = do_job(room, job);
		if (r < 0)
			log_warn("room.job_failed", "what=%d bytes=%" PRIu64 " errno=%d",
			         (int)job->what, job->bytes, -r);
		_exit(r < 0 ? CHILD_FAILED : r > 0 ? CHILD_CANNOT_ALLOCATE : CHILD_DONE);
	}
	log_debug("room.job", "what=%d bytes=%" PRIu64, (int)job->what, job->bytes);
	room->is_fitting = job->what == JOB_FIT;
	(void)!loop_child_take(room->loop, pidfd, on_child, room, &room->child);
}

static bool should_fit(const struct room *room, const struct room_figures *f)
{
	if (!f->can_grow || f->is_read_only)
		return false;
	if (!room->is_fitted)
		return true;
	if (f->missing > STEP_LEAST && !room->cannot_allocate &&
	    f->free > f->missing + f->reserve / 4)
		return true;
	return f->layers_unallocated > 3 * f->headroom;
}

/* The reserve is given up at once, and made again by a child. */
static void give_up_reserve(struct room *room, const struct room_figures *f)
{
	log_warn("room.reserve_released", "bytes=%" PRIu64, f->held);
	if (ftruncate(room->held_fd, 0) < 0)
		log_warn("room.reserve_not_released", "errno=%d", errno);
}

static void tend(struct room *room, const struct room_figures *f)
{
	uint64_t by = room_growth(f), hold = room_to_hold(f);

	if (hold < f->held)
		give_up_reserve(room, f);
	if (room->child || loop_now_us(room->loop) < room->next_try_us)
		return;
	if (should_fit(room, f))
		start_child(room, &(struct job){JOB_FIT, f->headroom});
	else if (by > 0)
		start_child(room, &(struct job){JOB_GROW, by});
	else if (hold > f->held && room->held_fd >= 0 && !room->cannot_allocate)
		start_child(room, &(struct job){JOB_HOLD, hold});
}

static void tell(struct room *room)
{
	uint64_t now_us = loop_now_us(room->loop);
	bool is_moved = room->now.state != room->told.state;

	if (!is_moved && (now_us < room->told_us + TELL_US ||
	                  memcmp(&room->now, &room->told, sizeof(room->now)) == 0))
		return;
	if (is_moved)
		log_warn("room.moved",
		         "to=%s free_bytes=%" PRIu64 " reserve_bytes=%" PRIu64
		         " layers_bytes=%" PRIu64 " layers_free_bytes=%" PRIu64,
		         disk_state_name(room->now.state), room->now.free_bytes,
		         room->now.reserve_bytes, room->now.layers_bytes,
		         room->now.layers_free_bytes);
	room->told = room->now;
	room->told_us = now_us;
	if (room->changed)
		room->changed(&room->now, room->arg);
}

static void look(struct room *room)
{
	struct room_figures f;

	if (!measure(room, &f))
		return;
	room->looked_us = loop_now_us(room->loop);
	room->now = (struct host_disk){
		.state = room_judge(&f, room->now.state),
		.free_bytes = f.free,
		.reserve_bytes = f.reserve,
		.layers_bytes = f.layers,
		.layers_free_bytes = f.layers > 0 ? f.layers_free : left_to_take(&f),
		.layers_limit_bytes =
			f.layers + (f.can_grow || f.layers == 0 ? left_to_take(&f) : 0),
	};
	tend(room, &f);
	tell(room);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct room *room = arg;

	(void)loop;
	look(room);
	loop_timer_set_in(room->timer, LOOK_US);
}

void room_open(struct room *room, const struct storage *storage, struct loop *loop,
               uint64_t reserve, uint64_t headroom,
               void (*changed)(const struct host_disk *disk, void *arg), void *arg)
{
	*room = (struct room){.storage = storage,
	                      .loop = loop,
	                      .reserve_wanted = reserve,
	                      .headroom_wanted = headroom,
	                      .changed = changed,
	                      .arg = arg};
	room->held_fd = openat(storage->data_fd, "reserve",
	                       O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	room->timer = loop_timer_new(room->loop, on_timer, room);
	look(room);
	loop_timer_set_in(room->timer, LOOK_US);
}

void room_close(struct room *room)
{
	int pidfd = room->child ? loop_child_pidfd(room->child) : -1;
	siginfo_t info;

	loop_timer_free(room->timer);
	if (room->child) { /* it would keep the layers mounted */
		(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
		(void)waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
	}
	loop_child_remove(room->child);
	if (room->loop && room->held_fd >= 0)
		(void)close(room->held_fd);
	*room = (struct room){0};
}

void room_get(struct room *room, struct host_disk *ret)
{
	if (loop_now_us(room->loop) > room->looked_us + FRESH_US)
		look(room);
	*ret = room->now;
}
