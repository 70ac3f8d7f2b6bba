// SPDX-License-Identifier: Apache-2.0
/*
 * QEMU writes to a memfd, which counts against its own group's limit: a guest may have taken over
 * QEMU, and must not fill the host's disk.
 */
#include "engine/vm/save.h"

#include "base/fd.h"
#include "base/units.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/disk_snapshot_private.h"
#include "engine/vm/ask.h"
#include "engine/vm/boot/machine.h"
#include "engine/vm/copy.h"
#include "engine/vm/kind.h"
#include "engine/vm/ram.h"
#include "engine/vm/saved.h"
#include "engine/vm/start.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>

#define STILL_US  (60 * SECOND_US) /* a guest first writes out dirty data */
#define STATE_MAX (8 << 20)

struct finished { /* by the child */
	struct err err;
	uint64_t bytes;
	struct saved saved;
};

struct machine_save {
	struct guest_host *host;
	struct guest *g;
	int dir_fd;
	struct snapshot_spec spec;
	struct memory_ops ops;
	void *arg;
	struct ask *ask;
	int state_fd; /* in memory */
	int ram_fd;   /* of a brief one, for copies that follow at once; or -1 */
	int result_fd;
	struct loop_io *io;
	struct loop_child *child;
	struct finished result;
	bool is_released, is_finished, is_told;
};

static void save_free(struct loop *loop, void *arg)
{
	struct machine_save *s = arg;

	(void)loop;
	close_fd(&s->result_fd);
	close_fd(&s->dir_fd);
	close_fd(&s->state_fd);
	close_fd(&s->ram_fd);
	free(s);
}

/* Lets the machine go on if it is still stopped, and forgets the save. */
static void leave(struct machine_save *s)
{
	ask_end(take_ptr(s->ask));
	loop_io_removep(&s->io);
	if (s->child) /* it is reaped, and nobody waits for it */
		(void)pidfd_send_signal(loop_child_pidfd(s->child), SIGKILL, NULL, 0);
	vm_own(s->g)->save = NULL;
	s->g = NULL;
	if (!s->child)
		loop_defer(s->host->loop, save_free, s);
}

/* Reports the end once. If the guest is not to go on, it stays stopped after it. */
static void end(struct machine_save *s, const struct err *err)
{
	const struct memory_ops ops = s->ops;
	const uint64_t bytes = s->result.bytes;
	void *const arg = s->arg;

	if (!err && s->ram_fd >= 0)
		copy_remember(s->spec.id, &s->result.saved, take_fd(&s->ram_fd));
	s->is_told = true;
	if (err || !s->spec.is_last)
		leave(s);
	ops.done(bytes, err, arg);
}

/* From here to start_child(): in a child. */

static int write_state(const struct machine_save *s, struct digest *ret, struct err *err)
{
	auto_fd int fd = openat(s->dir_fd, SAVED_STATE,
	                        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	auto_free char *data = xcalloc(1, STATE_MAX);
	ssize_t len = pread(s->state_fd, data, STATE_MAX, 0);
	int r = fd < 0 || len < 0 ? -errno : 0;

	if (r == 0 && (len == 0 || len == STATE_MAX))
		r = -EFBIG;
	if (r == 0)
		r = fd_write_all(fd, data, (size_t)len);
	if (r == 0)
		r = saved_hash(fd, ret);
	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
	                       "cannot save the machine's devices")
	             : 0;
}

static int open_base(struct guest_host *host, const struct guest_spec *spec)
{
	struct err ignored;
	auto_fd int dir_fd = -1;

	if (!spec->with_memory ||
	    disk_snapshot_open_memory(host, spec->snapshot, &dir_fd, &ignored) < 0)
		return -1;
	return openat(dir_fd, SAVED_RAM, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

static int write_all(const struct machine_save *s, int out_fd, struct finished *f)
{
	const struct guest_spec *spec = &s->g->spec;
	auto_fd int base_fd = open_base(s->host, spec);
	const struct ram ram = {.vmm = s->g->pid,
	                        .bytes = spec->limits.memory_bytes,
	                        .is_copy = spec->with_memory != 0,
	                        .base_fd = base_fd};
	auto_fd int fd = openat(s->dir_fd, SAVED_RAM,
	                        O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	int r = fd < 0 ? err_set(&f->err, ERR_INTERNAL, errno, "cannot make a file") : 0;

	if (r == 0)
		r = ram_save(&ram, fd, s->ram_fd, &f->bytes, &f->err);
	if (r == 0 && fd_write_all(out_fd, "c", 1) < 0)
		r = -EPIPE;
	if (r == 0)
		r = write_state(s, &f->saved.state, &f->err);
	if (r == 0 && !s->spec.is_brief) /* copies of a fork start from the memory here */
		r = ram_read(fd, -1, &f->saved.ram, &f->err);
	return r == 0 ? saved_write(s->dir_fd, &f->saved, &f->err) : r;
}

static void run(const struct machine_save *s, int out_fd)
{
	struct finished f = s->result;
	int r = write_all(s, out_fd, &f);

	if (r < 0 && f.err.code == ERR_NONE)
		_exit(1);
	_exit(fd_write_all(out_fd, &f, sizeof(f)) == 0 ? 0 : 1);
}

static void on_finished(struct loop *loop, int wait_status, void *arg)
{
	struct machine_save *s = arg;
	const struct finished planned = s->result;
	const bool was_copied = !s->io;
	char c;

	s->child = NULL;
	if (!s->g) {
		loop_defer(loop, save_free, s);
		return;
	}
	if (!was_copied) { /* both came in one turn, or it never was copied */
		loop_io_removep(&s->io);
		if (fd_read_all(s->result_fd, &c, 1) < 0 || c != 'c')
			wait_status = 1;
	}
	s->is_finished = true;
	if (wait_status != 0 || fd_read_all(s->result_fd, &s->result, sizeof(s->result)) < 0) {
		s->result = planned;
		(void)err_set(&s->result.err, ERR_INTERNAL, 0, "the memory could not be saved");
	}
	if (s->result.err.code != ERR_NONE)
		end(s, &s->result.err);
	else if (s->is_released)
		end(s, NULL);
	else if (!was_copied)
		s->ops.still(s->arg); /* of a child that was quicker than we looked */
}

static void on_copied(struct loop *loop, uint32_t events, void *arg)
{
	struct machine_save *s = arg;
	char c;

	(void)loop;
	(void)events;
	if (read(s->result_fd, &c, 1) != 1 || c != 'c')
		return; /* its end tells */
	loop_io_removep(&s->io);
	s->ops.still(s->arg);
}

static int start_child(struct machine_save *s, struct err *err)
{
	int fds[2], pidfd = -1, r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a pipe");
	s->result_fd = fds[0];
	pid = disk_snapshot_fork(&pidfd);
	if (pid == 0)
		run(s, fds[1]);
	(void)close(fds[1]);
	if (pid < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a child");
	r = loop_child_take(s->host->loop, pidfd, on_finished, s, &s->child);
	if (r == 0)
		r = loop_io_add(s->host->loop, s->result_fd, EPOLLIN, on_copied, s, &s->io);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch a child") : 0;
}

static void on_answer(const struct err *err, void *arg)
{
	struct machine_save *s = arg;
	struct err own;

	if (err)
		end(s, err);
	else if (s->dir_fd < 0)
		s->ops.still(s->arg);
	else if (start_child(s, &own) < 0)
		end(s, &own);
}

/* For QEMU, which gets it open for writing only, as it requires. */
static int make_state(struct machine_save *s, int *ret_fd, struct err *err)
{
	char path[32];

	s->state_fd = memfd_create("cloche-state", MFD_CLOEXEC);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", s->state_fd);
	if (s->state_fd < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a file for the devices");
	*ret_fd = open(path, O_WRONLY | O_CLOEXEC);
	return *ret_fd < 0 ? err_set(err, ERR_CAPACITY, errno, "cannot open a file") : 0;
}

static int prepare(struct machine_save *s, int dir_fd, int *ret_fd, struct err *err)
{
	const struct guest_spec *spec = &s->g->spec;
	struct saved *saved = &s->result.saved;
	int r = vm_read_identity(s->g, &saved->identity, err);

	saved->memory_bytes = spec->limits.memory_bytes;
	saved->disk_bytes = spec->limits.disk_bytes;
	saved->cpus = machine_cpus(&spec->limits);
	saved->is_kvm = spec->is_kvm;
	s->dir_fd = r < 0 ? -1 : fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	if (r == 0 && s->dir_fd < 0)
		r = err_set(err, ERR_CAPACITY, errno, "cannot copy a descriptor");
	if (r == 0)
		r = make_state(s, ret_fd, err);
	if (r == 0 && s->spec.is_brief)
		r = ram_make(spec->limits.memory_bytes, &s->ram_fd, err);
	return r;
}

int machine_save(struct guest *g, int dir_fd, const struct snapshot_spec *snapshot,
                 const struct memory_ops *ops, void *arg, struct err *err)
{
	const struct vmm_ask ask = {.kind = VMM_ASK_SAVE};
	auto_fd int state_fd = -1;
	struct machine_save *s = xnew0(struct machine_save);
	int r = 0;

	*s = (struct machine_save){.host = g->host,
	                           .g = g,
	                           .spec = *snapshot,
	                           .ops = *ops,
	                           .arg = arg,
	                           .dir_fd = -1,
	                           .state_fd = -1,
	                           .ram_fd = -1,
	                           .result_fd = -1};
	if (dir_fd >= 0)
		r = prepare(s, dir_fd, &state_fd, err);
	if (r == 0)
		r = ask_begin(g, &ask, state_fd, STILL_US, on_answer, s, &s->ask, err);
	if (r < 0) {
		save_free(g->host->loop, s);
		return r;
	}
	vm_own(g)->save = s;
	return 0;
}

void machine_release(struct guest *g)
{
	struct machine_save *s = vm_own(g)->save;

	if (!s || s->is_released)
		return;
	s->is_released = true;
	if (!s->spec.is_last)
		ask_end(take_ptr(s->ask));
	if (s->dir_fd < 0 || s->is_finished)
		end(s, NULL);
}

void machine_go_on(struct guest *g)
{
	if (vm_own(g)->save && vm_own(g)->save->is_told)
		leave(vm_own(g)->save);
}

void machine_drop_save(struct guest *g)
{
	struct err err;

	machine_go_on(g);
	if (!vm_own(g)->save)
		return;
	(void)err_set(&err, ERR_GONE, ESRCH, "the sandbox has ended");
	end(vm_own(g)->save, &err);
}
