// SPDX-License-Identifier: Apache-2.0
/*
 * Once the agent was told to be quiet, it is always reconnected to the host in the end, whatever
 * happens to the rest. The exception is a guest that is not to go on: CRIU holds it until it is
 * killed; if CRIU ends first, the guest goes on.
 *
 * Writing the manifest means reading the whole memory. Forks do not wait for that: their manifest
 * is written in the background, and until then this broker knows that the memory is complete.
 */
#include "engine/jail/memory/memory.h"

#include "base/fd.h"
#include "base/log.h"
#include "engine/guest/guest_record.h"
#include "engine/jail/memory/agent_handover.h"
#include "engine/jail/memory/confinement.h"
#include "engine/jail/memory/criu.h"
#include "engine/jail/memory/memory_agent.h"
#include "engine/jail/memory/memory_boot.h"
#include "engine/jail/memory/memory_image.h"
#include "engine/jail/memory/memory_private.h"
#include "engine/linux/namespaces.h"
#include "engine/linux/syscalls.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define QUIET_TIME_US (10 * 1000000U) /* normally less than a second; more on a loaded host */
#define MOUNTS_MAX    (1 << 20)

struct memory_save {
	struct guest_host *host;
	struct guest *g;
	int dir_fd;
	bool closes_connections, is_last, is_brief, is_still;
	bool was_still; /* CRIU was done with it once: nothing is tried again behind that */
	bool is_tried_again;
	bool is_told; /* done() was called */
	bool is_over; /* but for children that are still to be reaped */
	struct memory_ops ops;
	void *arg;
	unsigned char token[QUIET_TOKEN_SIZE];
	int link_fd, listen_fd, status_fd, result_fd;
	struct loop_io *io; /* the awaited fd: link, control or status */
	struct loop_timer *timer;
	struct criu criu;
	struct loop_child *child, *finisher; /* CRIU, and the one that finishes */
	struct loop_child *describer;        /* of a brief save, after its end */
	struct err failure;
};

struct finished {
	struct err err;
	uint64_t bytes;
};

static void save_free(struct loop *loop, void *arg)
{
	struct memory_save *s = arg;

	(void)loop;
	close_fd(&s->result_fd);
	criu_done(&s->criu);
	free(s);
}

static void free_if_done(struct memory_save *s)
{
	if (s->is_over && !s->child && !s->finisher && !s->describer)
		loop_defer(s->host->loop, save_free, s);
}

static void tell(struct memory_save *s, uint64_t bytes)
{
	if (s->is_told)
		return;
	s->is_told = true;
	s->ops.done(bytes, s->failure.code != ERR_NONE ? &s->failure : NULL, s->arg);
}

/* Ends the save; called once. */
static void end(struct memory_save *s, uint64_t bytes)
{
	loop_io_removep(&s->io);
	loop_timer_free(s->timer);
	close_fd(&s->dir_fd);
	close_fd(&s->link_fd);
	close_fd(&s->listen_fd);
	close_fd(&s->status_fd);
	criu_hang_up(&s->criu);
	s->g->save = NULL;
	s->is_over = true;
	if (s->finisher)
		(void)pidfd_send_signal(loop_child_pidfd(s->finisher), SIGKILL, NULL, 0);
	tell(s, bytes);
	free_if_done(s);
}

/* Answers CRIU, which then ends, and the guest goes on. */
static void let_criu_end(struct memory_save *s)
{
	if (s->failure.code != ERR_NONE || criu_let_go_on(&s->criu) < 0)
		criu_hang_up(&s->criu);
}

static void on_described(struct loop *loop, int wait_status, void *arg)
{
	struct memory_save *s = arg;

	(void)loop;
	if (wait_status != 0)
		log_debug("memory.not_described", "wait_status=0x%x", (unsigned)wait_status);
	s->describer = NULL;
	free_if_done(s);
}

enum task { TASK_FINISH, TASK_REPAIR, TASK_DESCRIBE };

static int run_task(const struct memory_save *s, enum task task, struct finished *f)
{
	switch (task) {
	case TASK_FINISH:
		return memory_image_finish(s->dir_fd, &f->bytes, &f->err);
	case TASK_REPAIR:
		return memory_image_prepare(s->dir_fd, &f->bytes, &f->err);
	case TASK_DESCRIBE:
		(void)setpriority(PRIO_PROCESS, 0, 19); /* clients wait for other work */
		return memory_image_describe(s->dir_fd, &f->bytes, &f->err);
	}
	return -EINVAL;
}

/* Runs a task in a child: it may read all that was written, which would block the loop. */
static int start_task(struct memory_save *s, enum task task, loop_child_fn on_exit,
                      struct loop_child **ret)
{
	int fds[2], pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD, .exit_signal = SIGCHLD, .pidfd = (uint64_t)(uintptr_t)&pidfd};
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	close_fd(&s->result_fd);
	s->result_fd = fds[0];
	pid = sys_clone3(&args);
	if (pid == 0) {
		struct finished f = {0};

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)!run_task(s, task, &f);
		_exit(fd_write_all(fds[1], &f, sizeof(f)) == 0 ? 0 : 1);
	}
	(void)close(fds[1]);
	return pid < 0 ? -errno : loop_child_take(s->host->loop, pidfd, on_exit, s, ret);
}

static void on_finished(struct loop *loop, int wait_status, void *arg)
{
	struct memory_save *s = arg;
	struct finished f = {0};
	ssize_t n = read(s->result_fd, &f, sizeof(f));

	(void)loop;
	s->finisher = NULL;
	log_debug("memory.finished", "id=%s", s->g->spec.id);
	if (s->is_over) {
		free_if_done(s);
		return;
	}
	if (s->failure.code != ERR_NONE)
		log_debug("memory.not_finished", "id=%s", s->g->spec.id);
	else if (n != sizeof(f) || wait_status != 0)
		(void)err_set(&s->failure, ERR_INTERNAL, 0, "the memory could not be finished");
	else
		s->failure = f.err;
	if (s->failure.code == ERR_NONE && s->is_brief &&
	    start_task(s, TASK_DESCRIBE, on_described, &s->describer) < 0)
		log_debug("memory.not_described", "id=%s", s->g->spec.id);
	if (!s->is_last)
		end(s, f.bytes);
	else if (s->failure.code != ERR_NONE)
		let_criu_end(s);
	else
		tell(s, f.bytes);
}

static int start_finish(struct memory_save *s)
{
	return start_task(s, s->is_brief ? TASK_REPAIR : TASK_FINISH, on_finished, &s->finisher);
}

static void finish(struct memory_save *s)
{
	int r = s->failure.code == ERR_NONE && !s->is_last ? start_finish(s) : -ECANCELED;

	if (r == -ECANCELED) {
		end(s, 0);
	} else if (r < 0) {
		(void)err_set(&s->failure, ERR_CAPACITY, -r, "cannot finish the memory");
		end(s, 0);
	}
}

static void on_held(struct loop *loop, uint32_t events, void *arg)
{
	struct memory_save *s = arg;

	(void)loop;
	(void)events;
	loop_io_removep(&s->io);
	loop_timer_set(s->timer, UINT64_MAX);
	agent_handover_forget(s->g);
	finish(s);
}

/* Reconnects the agent, whatever the result of the save was. */
static void give_hold(struct memory_save *s)
{
	int fds[2], r = pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0;
	struct err err = {0};

	if (r == 0) {
		s->status_fd = fds[0];
		r = agent_handover_end(s->g, loop_child_pidfd(s->g->child), s->token, s->listen_fd,
		                       fds[1], &err);
		(void)close(fds[1]);
	}
	close_fd(&s->listen_fd);
	if (r == 0)
		r = loop_io_add(s->host->loop, s->status_fd, EPOLLIN, on_held, s, &s->io);
	if (r == 0) {
		loop_timer_set_in(s->timer, QUIET_TIME_US);
		return;
	}
	if (s->failure.code == ERR_NONE)
		(void)err_set(&s->failure, ERR_GUEST, -r, "the agent cannot be reached");
	end(s, 0);
}

static int start_criu(struct memory_save *s, struct err *err);

/* The agent is still quiet. */
static bool try_again(struct memory_save *s)
{
	if (s->was_still || s->is_tried_again)
		return false;
	log_info("memory.tried_again", "id=%s error='%s'", s->g->spec.id, s->failure.message);
	s->is_tried_again = true;
	s->failure = (struct err){0};
	criu_done(&s->criu);
	return start_criu(s, &s->failure) == 0;
}

static void on_criu_exit(struct loop *loop, int wait_status, void *arg)
{
	struct memory_save *s = arg;

	(void)loop;
	s->child = NULL;
	if (s->is_over) {
		free_if_done(s);
		return;
	}
	loop_io_removep(&s->io);
	if (wait_status == 0 || s->failure.code != ERR_NONE ||
	    !criu_explain(s->criu.words_fd, wait_status, /* is_restore= */ false, &s->failure) ||
	    !try_again(s))
		give_hold(s);
}

static int write_confinement(struct memory_save *s, struct err *err)
{
	auto_call(buf_done) struct buf confinement =
		BUF_INIT(CONFINEMENT_MAX * sizeof(struct confinement));
	int r = confinement_read(s->g->pid, namespaces_first_id(s->g->spec.slot), &confinement,
	                         err);

	if (r < 0)
		return r;
	r = fd_replace_file(s->dir_fd, MEMORY_CONFINEMENT, confinement.data, confinement.len, 0600,
	                    false);
	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
	                       "cannot write down the confinement")
	             : 0;
}

static void on_control(struct loop *loop, uint32_t events, void *arg)
{
	struct memory_save *s = arg;
	pid_t pid;

	(void)loop;
	(void)events;
	loop_io_removep(&s->io);
	if (criu_hear(&s->criu, &pid) < 0)
		return; /* its exit tells the rest */
	s->is_still = s->was_still = true;
	log_debug("memory.still", "id=%s", s->g->spec.id);
	if (write_confinement(s, &s->failure) < 0)
		memory_release(s->g);
	else
		s->ops.still(s->arg);
}

void memory_release(struct guest *g)
{
	struct memory_save *s = g->save;

	int r = -ECANCELED;

	if (!s || !s->is_still)
		return;
	s->is_still = false;
	if (s->is_last && s->failure.code == ERR_NONE) {
		r = start_finish(s);
		if (r < 0)
			(void)err_set(&s->failure, ERR_CAPACITY, -r, "cannot finish the memory");
	}
	if (r < 0)
		let_criu_end(s);
}

void memory_go_on(struct guest *g)
{
	if (g->save && g->save->is_last && g->save->is_told)
		let_criu_end(g->save);
}

/* The mounts, which CRIU must be told of now and in a restore. */
static int read_mounts(struct memory_save *s, struct buf *ret)
{
	auto_call(buf_done) struct buf text = BUF_INIT(MOUNTS_MAX);
	char path[64], root[128], place[128], *line, *rest;
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)s->g->pid);
	r = buf_append_file(&text, path);
	rest = text.data;
	while (r >= 0 && rest && (line = strsep(&rest, "\n"))) {
		if (!*line)
			continue;
		if (sscanf(line, "%*s %*s %*s %127s %127s", root, place) != 2)
			return -EPROTO;
		r = buf_printf(ret, "%s %s\n", root, place);
	}
	return r < 0 ? r : 0;
}

static int start_criu(struct memory_save *s, struct err *err)
{
	auto_call(buf_done) struct buf mounts = BUF_INIT(MOUNTS_MAX);
	struct criu_spec spec = {.images_fd = s->dir_fd,
	                         .pid = s->g->pid,
	                         .closes_connections = s->closes_connections};
	auto_fd int net_fd = memory_open_net(s->g->pid);
	int r = net_fd < 0 ? -errno : read_mounts(s, &mounts);

	if (r == 0)
		r = fd_replace_file(s->dir_fd, MEMORY_MOUNTS, mounts.data, mounts.len, 0600, false);
	if (r == 0)
		r = fd_replace_file(s->dir_fd, MEMORY_TOKEN, s->token, sizeof(s->token), 0600,
		                    false);
	if (r == 0)
		r = memory_boot_note(s->dir_fd, s->g);
	if (r == 0)
		r = memory_agent_note(s->dir_fd, s->g->pid);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot describe the sandbox");
	spec.net_fd = net_fd;
	spec.mounts = buf_str(&mounts);
	r = criu_start(s->host, &spec, &s->criu, err);
	if (r < 0)
		return r;
	/* A broker that removes the guest without us must end CRIU too, since CRIU would wait for
	 * dead processes. */
	if (guest_record_write_saver(s->g->dir_fd, &s->g->spec, s->criu.pid, err) < 0)
		log_debug("memory.not_recorded", "id=%s error='%s'", s->g->spec.id, err->message);
	r = loop_child_take(s->host->loop, take_fd(&s->criu.pidfd), on_criu_exit, s, &s->child);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot watch CRIU");
	r = loop_io_add(s->host->loop, s->criu.up_fd, EPOLLIN, on_control, s, &s->io);
	if (r < 0) { /* its exit, which follows, tells */
		(void)err_set(&s->failure, ERR_INTERNAL, -r, "cannot watch CRIU");
		criu_hang_up(&s->criu);
	}
	return 0;
}

static void on_quiet(struct loop *loop, uint32_t events, void *arg)
{
	struct memory_save *s = arg;
	char byte;

	(void)loop;
	(void)events;
	if (recv(s->link_fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
		return;
	loop_io_removep(&s->io);
	loop_timer_set(s->timer, UINT64_MAX);
	close_fd(&s->link_fd);
	if (start_criu(s, &s->failure) < 0)
		give_hold(s);
}

static void on_late(struct loop *loop, void *arg)
{
	struct memory_save *s = arg;
	const bool is_asked = s->link_fd >= 0;

	(void)loop;
	loop_io_removep(&s->io);
	if (s->failure.code == ERR_NONE)
		(void)err_set(&s->failure, ERR_TIMEOUT, ETIMEDOUT,
		              "the sandbox's agent does not answer");
	if (is_asked) {
		close_fd(&s->link_fd);
		give_hold(s);
	} else {
		end(s, 0);
	}
}

int memory_save(struct guest *g, int dir_fd, const struct snapshot_spec *spec,
                const struct memory_ops *ops, void *arg, struct err *err)
{
	struct memory_save *s;
	int r = criu_probe(g->host, err);

	if (r < 0)
		return r;
	if (g->state != GUEST_RUNNING)
		return err_set(err, ERR_GONE, ESRCH, "the sandbox is not running");
	if (g->save)
		return err_set(err, ERR_CONFLICT, EBUSY, "the sandbox is being saved");
	s = xnew0(struct memory_save);
	*s = (struct memory_save){.host = g->host,
	                          .g = g,
	                          .dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0),
	                          .closes_connections = spec->closes_connections != 0,
	                          .is_last = spec->is_last != 0,
	                          .is_brief = spec->is_brief != 0,
	                          .ops = *ops,
	                          .arg = arg,
	                          .link_fd = -1,
	                          .listen_fd = -1,
	                          .status_fd = -1,
	                          .result_fd = -1};
	criu_init(&s->criu);
	random_bytes(s->token, sizeof(s->token));
	r = s->dir_fd < 0 ? err_set(err, ERR_CAPACITY, errno, "no fd is left")
	                  : agent_handover_ask(g, s->token, &s->link_fd, &s->listen_fd, err);
	if (r == 0) {
		r = loop_io_add(g->host->loop, s->link_fd, EPOLLIN, on_quiet, s, &s->io);
		if (r < 0)
			(void)err_set(err, ERR_INTERNAL, -r, "cannot watch the agent");
	}
	if (r < 0) {
		close_fd(&s->dir_fd);
		close_fd(&s->link_fd);
		close_fd(&s->listen_fd);
		free(s);
		return r;
	}
	s->timer = loop_timer_new(g->host->loop, on_late, s);
	loop_timer_set_in(s->timer, QUIET_TIME_US);
	g->save = s;
	return 0;
}

/* Ends the CRIU of an earlier broker. */
static void end_saver(const struct guest *g)
{
	auto_fd int dir_fd = openat(g->host->sandboxes_fd, g->spec.id,
	                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int pidfd = -1;

	if (dir_fd >= 0 && guest_record_open_saver(dir_fd, g->spec.id, &pidfd) == 0)
		(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
}

/* The guest ends, so CRIU's work in it ends too. */
void memory_drop_save(struct guest *g)
{
	struct memory_save *s = g->save;

	if (!s) {
		end_saver(g);
		return;
	}
	if (s->child)
		(void)pidfd_send_signal(loop_child_pidfd(s->child), SIGKILL, NULL, 0);
	(void)err_set(&s->failure, ERR_GONE, ESRCH, "the sandbox has ended");
	end(s, 0);
}
