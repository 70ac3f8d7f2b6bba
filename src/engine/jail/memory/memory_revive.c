// SPDX-License-Identifier: Apache-2.0
/*
 * Nothing of a copy runs before its confinement and its pages were checked. The pages, nearly all
 * of a memory, are read for that while CRIU restores them: it only copies those. On any failure
 * CRIU's control pipe is closed, and CRIU kills what it has restored. If CRIU is gone by then,
 * removing the guest's control groups does.
 *
 * Only a few are revived at a time, and the others wait in line: each is mostly CPU work, and if
 * all ran at once, all would be late.
 */
#include "engine/jail/memory/memory.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/guest/guest_record.h"
#include "engine/jail/memory/agent_handover.h"
#include "engine/jail/memory/confinement.h"
#include "engine/jail/memory/criu.h"
#include "engine/jail/memory/memory_boot.h"
#include "engine/jail/memory/memory_image.h"
#include "engine/jail/memory/memory_private.h"
#include "engine/layer/own_tmpfs.h"
#include "engine/linux/namespaces.h"
#include "engine/linux/syscalls.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define MOUNTS_MAX 65536
#define CHECKED    64 /* memories that are remembered to be whole */
#define EACH_CPU   2  /* revivals at a time */
/* Of its turn. Gigabytes may come from a slow disk; the gateway waits a little longer than this. */
#define REVIVE_US (120 * SECOND_US)

struct revival {
	struct guest_host *host;
	struct list link; /* in waiting, or in none */
	struct guest *g;
	struct memory_ground ground;
	loop_child_fn on_exit;
	void (*failed)(struct guest *g, const struct err *err);
	int images_fd, net_fd, result_fd;
	bool has_ground, is_parsed_checked, is_checked, is_begun, is_over;
	pid_t restored; /* its first process, while that waits for the check of the pages; or 0 */
	int root_fd, usr_fd;
	struct loop_child *founder, *checker, *criu_child;
	struct loop_io *go_io, *control_io, *check_io;
	struct criu criu;
	struct err criu_failure; /* while the check of the pages may name a cause */
	unsigned char token[QUIET_TOKEN_SIZE];
	struct buf mounts, confinement;
};

static struct list waiting = LIST_INIT(waiting);
static size_t n_begun;

/* Known by the inodes of their directories: their contents never change. */
static struct {
	dev_t dev;
	ino_t ino;
} checked[CHECKED];
static size_t n_checked;

static bool is_known_whole(int images_fd)
{
	struct stat st;

	for (size_t i = 0; fstat(images_fd, &st) == 0 && i < MIN(n_checked, (size_t)CHECKED); i++)
		if (checked[i].dev == st.st_dev && checked[i].ino == st.st_ino)
			return true;
	return false;
}

void memory_remember_whole(int images_fd)
{
	struct stat st;

	if (fstat(images_fd, &st) < 0)
		return;
	checked[n_checked % CHECKED].dev = st.st_dev;
	checked[n_checked++ % CHECKED].ino = st.st_ino;
}

int memory_open_net(pid_t pid)
{
	char path[48];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void revival_free(struct loop *loop, void *arg)
{
	struct revival *v = arg;

	(void)loop;
	close_fd(&v->result_fd);
	criu_done(&v->criu);
	buf_done(&v->mounts);
	buf_done(&v->confinement);
	free(v);
}

static void free_if_done(struct revival *v)
{
	if (v->is_over && !v->founder && !v->checker && !v->criu_child)
		loop_defer(v->host->loop, revival_free, v);
}

static void begin_next(struct loop *loop, void *arg);

/* The revival is done for the guest; only its children must still be reaped. */
static void let_go(struct revival *v)
{
	struct loop_child *const children[] = {v->founder, v->checker};

	list_remove(&v->link);
	if (v->is_begun) {
		n_begun--;
		loop_defer(v->host->loop, begin_next, NULL);
	}
	loop_io_removep(&v->go_io);
	loop_io_removep(&v->control_io);
	loop_io_removep(&v->check_io);
	close_fd(&v->images_fd);
	close_fd(&v->net_fd);
	close_fd(&v->root_fd);
	close_fd(&v->usr_fd);
	close_fd(&v->ground.go_fd);
	close_fd(&v->ground.listen_fd);
	close_fd(&v->ground.ready_fd);
	criu_hang_up(&v->criu); /* it ends by that, if it has not got its word */
	for (size_t i = 0; i < ARRAY_SIZE(children); i++)
		if (children[i])
			(void)pidfd_send_signal(loop_child_pidfd(children[i]), SIGKILL, NULL, 0);
	v->g->revival = NULL;
	v->is_over = true;
	free_if_done(v);
}

void memory_drop_revival(struct guest *g)
{
	struct revival *v = g->revival;

	if (!v)
		return;
	if (v->criu_child)
		(void)pidfd_send_signal(loop_child_pidfd(v->criu_child), SIGKILL, NULL, 0);
	let_go(v);
}

/* A call of begin_next() may be deferred, and guests are freed before it comes. */
void memory_leave(void)
{
	list_for_each (&waiting, struct revival, v, link)
		list_remove(&v->link);
}

void memory_drop(struct guest *g)
{
	memory_drop_save(g);
	memory_drop_revival(g);
}

static void fail(struct revival *v, const struct err *err)
{
	struct guest *g = v->g;
	const struct err copy = *err;

	log_warn("jail.not_revived", "id=%s error='%s'", g->spec.id, copy.message);
	v->failed(g, &copy); /* drops us */
}

/* Checks all covers: a missing one would show the host's file. */
static int check_covers(const struct guest *g, const char *mounts, struct err *err)
{
	auto_free char *text = xstrdup(mounts);
	char *line, *rest = text, root[128], place[128], path[256];
	struct stat meant, seen;

	while ((line = strsep(&rest, "\n"))) {
		if (sscanf(line, "%127s %127s", root, place) != 2 ||
		    (strcmp(root, "/" OWN_TMPFS_EMPTY_FILE) != 0 &&
		     strcmp(root, "/" OWN_TMPFS_EMPTY_DIR) != 0))
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%d/root%s", (int)g->pid, place);
		if (fstatat(g->machine_view_fd, root + 1, &meant, AT_SYMLINK_NOFOLLOW) < 0 ||
		    lstat(path, &seen) < 0 || seen.st_dev != meant.st_dev ||
		    seen.st_ino != meant.st_ino)
			return err_set(err, ERR_INTERNAL, EPERM, "'%s' is not covered", place);
	}
	return 0;
}

static int check_confinement(struct revival *v, struct err *err)
{
	auto_call(buf_done) struct buf now = BUF_INIT(CONFINEMENT_MAX * sizeof(struct confinement));
	struct guest *g = v->g;
	char group[128];
	struct confinement_around around = {.pid = g->pid,
	                                    .first_id = namespaces_first_id(g->spec.slot),
	                                    .group = group,
	                                    .n_trees = v->host->cgroups.n};
	struct stat net;
	int r;

	(void)snprintf(group, sizeof(group), "/%s/%s", v->host->cgroups.parent, g->spec.id);
	if (fstat(v->net_fd, &net) < 0)
		return err_set(err, ERR_INTERNAL, errno, "its net namespace is gone");
	around.net_inode = net.st_ino;
	r = confinement_read(g->pid, around.first_id, &now, err);
	if (r == 0)
		r = confinement_compare(&v->confinement, &now, err);
	if (r == 0)
		r = confinement_check_around(&around, err);
	if (r == 0)
		r = check_covers(g, buf_str(&v->mounts), err);
	return r < 0 ? err_prefix(err, "the copy is weaker than its original") : 0;
}

/* Only the agent is outside `user`, as in every guest. */
static int join_agent_group(const struct guest *g, struct err *err)
{
	auto_fd int group_fd = cgroup_open_agent(&g->host->cgroups, g->spec.id);
	int r = cgroup_join_agent(&g->host->cgroups, g->spec.id, g->pid, err);
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", (int)g->pid);
	if (r == 0 && group_fd >= 0 && fd_write_file(group_fd, "cgroup.procs", text) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot join the agent's group");
	return r;
}

/* A broker that reads the record must be able to reconnect the agent. */
static int keep_token(const struct revival *v, struct err *err)
{
	int r = agent_handover_keep(v->g, v->token);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot keep its token") : 0;
}

/* Called when everything is restored and still stopped. */
static int admit(struct revival *v, pid_t pid, struct err *err)
{
	struct guest *g = v->g;
	int pidfd = pidfd_open(pid, 0), r;

	if (pidfd < 0)
		return err_set(err, ERR_INTERNAL, errno, "the copy's first process is gone");
	r = loop_child_take(v->host->loop, pidfd, v->on_exit, g, &g->child);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the copy");
	g->pid = pid;
	r = join_agent_group(g, err);
	if (r == 0)
		r = check_confinement(v, err);
	if (r == 0)
		r = keep_token(v, err);
	if (r == 0)
		r = guest_record_write(g->dir_fd, &g->spec, g->pid, err);
	if (r == 0 && criu_let_go_on(&v->criu) < 0)
		r = err_set(err, ERR_INTERNAL, EPIPE, "CRIU is gone");
	return r;
}

static void on_control(struct loop *loop, uint32_t events, void *arg)
{
	struct revival *v = arg;
	struct err err;
	pid_t pid;

	(void)loop;
	(void)events;
	loop_io_removep(&v->control_io);
	if (criu_hear(&v->criu, &pid) < 0)
		return; /* its exit tells the rest */
	v->restored = pid;
	log_debug("memory.restored", "id=%s", v->g->spec.id);
	if (v->is_checked && admit(v, pid, &err) < 0)
		fail(v, &err);
}

/* Only after CRIU is done. CRIU releases the agent first; if the agent then killed a process that
 * CRIU still holds, CRIU would take that for a failure. */
static int wake_agent(struct revival *v, struct err *err)
{
	struct guest *g = v->g;
	int r;

	if (!g->child)
		return err_set(err, ERR_INTERNAL, ESRCH, "the copy ended at once");
	r = agent_handover_end(g, loop_child_pidfd(g->child), v->token, v->ground.listen_fd,
	                       v->ground.ready_fd, err);
	close_fd(&v->ground.ready_fd); /* from here on the agent alone has it */
	return r;
}

static void on_criu_exit(struct loop *loop, int wait_status, void *arg)
{
	struct revival *v = arg;
	struct err err;

	(void)loop;
	v->criu_child = NULL;
	if (wait_status != 0)
		unknown_children_expect(&v->host->unknown_children, v->host->loop);
	if (v->is_over) {
		free_if_done(v);
	} else if (wait_status != 0) {
		(void)criu_explain(v->criu.words_fd, wait_status, /* is_restore= */ true, &err);
		v->criu_failure = err;
		if (v->is_checked) /* else it may be the pages */
			fail(v, &err);
	} else if (wake_agent(v, &err) < 0) {
		fail(v, &err);
	} else {
		let_go(v); /* the agent's word is waited for as of any start */
	}
}

static int read_own(struct revival *v, const char *name, struct buf *ret)
{
	auto_fd int fd = openat(v->images_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char *room;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	r = buf_reserve(ret, (size_t)st.st_size, &room);
	if (r >= 0)
		r = fd_read_all(fd, room, (size_t)st.st_size);
	if (r >= 0)
		buf_commit(ret, (size_t)st.st_size);
	return r;
}

static int read_description(struct revival *v)
{
	auto_call(buf_done) struct buf token = BUF_INIT(QUIET_TOKEN_SIZE);
	int r = read_own(v, MEMORY_MOUNTS, &v->mounts);

	if (r >= 0)
		r = read_own(v, MEMORY_CONFINEMENT, &v->confinement);
	if (r >= 0)
		r = read_own(v, MEMORY_TOKEN, &token);
	if (r >= 0)
		r = token.len == sizeof(v->token) ? 0 : -EPROTO;
	if (r >= 0)
		memcpy(v->token, token.data, sizeof(v->token));
	return r < 0 ? r : memory_boot_resume(v->images_fd, v->g);
}

static int start_criu(struct revival *v, struct err *err)
{
	struct criu_spec spec = {.is_restore = true,
	                         .images_fd = v->images_fd,
	                         .net_fd = v->net_fd,
	                         .root_fd = v->root_fd,
	                         .usr_fd = v->usr_fd,
	                         .machine_view_fd = v->g->machine_view_fd,
	                         .guest = &v->g->spec,
	                         .cpus = v->ground.cpus};
	int r = read_description(v);

	if (r < 0)
		return err_set(err, ERR_CONFLICT, -r, "the saved memory is damaged");
	spec.mounts = buf_str(&v->mounts);
	r = criu_start(v->host, &spec, &v->criu, err);
	if (r < 0)
		return r;
	r = loop_child_take(v->host->loop, take_fd(&v->criu.pidfd), on_criu_exit, v,
	                    &v->criu_child);
	if (r == 0)
		r = loop_io_add(v->host->loop, v->criu.up_fd, EPOLLIN, on_control, v,
		                &v->control_io);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch CRIU") : 0;
}

static void begin_next(struct loop *loop, void *arg)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct revival *v = list_first(&waiting, struct revival, link);
	struct err err;

	(void)arg;
	if (!v || n_begun >= (size_t)MAX(cpus, 1L) * EACH_CPU)
		return;
	list_remove(&v->link);
	v->is_begun = true;
	n_begun++;
	loop_timer_set_in(v->g->timer, REVIVE_US);
	if (start_criu(v, &err) < 0)
		fail(v, &err);
	else
		close_fd(&v->ground.go_fd); /* the founder is done */
	loop_defer(loop, begin_next, NULL);
}

static void go_on(struct revival *v)
{
	if (!v->has_ground || !v->is_parsed_checked)
		return;
	list_append(&waiting, &v->link);
	begin_next(v->host->loop, NULL);
}

/* What the checker says of a part. */
static int hear_checker(const struct revival *v, struct err *ret)
{
	*ret = (struct err){0};
	if (read(v->result_fd, ret, sizeof(*ret)) != sizeof(*ret))
		(void)err_set(ret, ERR_INTERNAL, 0, "the saved memory could not be checked");
	return ret->code == ERR_NONE ? 0 : -EBADMSG;
}

/* CRIU may read it. */
static void on_parsed_checked(struct loop *loop, uint32_t events, void *arg)
{
	struct revival *v = arg;
	struct err err;

	(void)loop;
	(void)events;
	loop_io_removep(&v->check_io);
	if (hear_checker(v, &err) < 0) {
		fail(v, &err);
		return;
	}
	v->is_parsed_checked = true;
	go_on(v);
}

/* And what it has restored may go on. */
static void on_checked(struct loop *loop, int wait_status, void *arg)
{
	struct revival *v = arg;
	struct err err = {0};
	int r = 0;

	(void)wait_status; /* what it has not said tells */
	v->checker = NULL;
	if (v->is_over) {
		free_if_done(v);
		return;
	}
	if (!v->is_parsed_checked)
		on_parsed_checked(loop, EPOLLIN, v);
	if (v->is_over) /* by that */
		return;
	r = hear_checker(v, &err);
	if (r == 0) {
		log_debug("memory.checked", "id=%s", v->g->spec.id);
		memory_remember_whole(v->images_fd);
		v->is_checked = true;
		if (v->criu_failure.code != ERR_NONE)
			r = -EIO;
		else if (v->restored)
			r = admit(v, v->restored, &err);
	}
	if (r < 0)
		fail(v, err.code != ERR_NONE ? &err : &v->criu_failure);
}

/* Each part as it is done, until one is damaged. */
static int check_parts(const struct revival *v, int out_fd)
{
	static const enum memory_part parts[] = {MEMORY_PARSED, MEMORY_PAGES};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++) {
		struct err err = {0};

		r = memory_image_check(v->images_fd, parts[i], &err);
		if (fd_write_all(out_fd, &err, sizeof(err)) < 0)
			return 1;
	}
	return 0;
}

static int start_check(struct revival *v)
{
	int fds[2], pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD, .exit_signal = SIGCHLD, .pidfd = (uint64_t)(uintptr_t)&pidfd};
	pid_t pid;
	int r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	v->result_fd = fds[0];
	pid = sys_clone3(&args);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(check_parts(v, fds[1]));
	}
	(void)close(fds[1]);
	r = pid < 0 ? -errno : loop_child_take(v->host->loop, pidfd, on_checked, v, &v->checker);
	return r < 0 ? r
	             : loop_io_add(v->host->loop, v->result_fd, EPOLLIN, on_parsed_checked, v,
	                           &v->check_io);
}

/* Receives the mounts, or sees its end, whose reason is on status_fd. */
static void on_ground(struct loop *loop, uint32_t events, void *arg)
{
	struct revival *v = arg;
	int fds[FD_PASS_MAX];
	size_t n = 0;
	char byte;
	ssize_t len = fd_recv(v->ground.go_fd, &byte, 1, fds, &n);

	(void)loop;
	(void)events;
	loop_io_removep(&v->go_io);
	if (len == 1 && n >= 1) {
		v->root_fd = fds[0];
		v->usr_fd = n > 1 ? fds[1] : -1;
		v->has_ground = true;
		go_on(v);
	}
}

static void on_founder_exit(struct loop *loop, int wait_status, void *arg)
{
	struct revival *v = arg;
	struct err err;

	(void)loop;
	(void)wait_status;
	v->founder = NULL;
	if (v->is_over) {
		free_if_done(v);
	} else if (!v->has_ground) {
		if (read(v->g->status_fd, &err, sizeof(err)) != sizeof(err))
			(void)err_set(&err, ERR_INTERNAL, 0,
			              "the ground of the copy could not be laid");
		fail(v, &err);
	}
}

int memory_revive(struct guest *g, int images_fd, const struct memory_ground *ground,
                  loop_child_fn on_exit, void (*failed)(struct guest *g, const struct err *err),
                  struct err *err)
{
	struct revival *v = xnew0(struct revival);
	int pidfd = ground->pidfd, r;

	*v = (struct revival){.host = g->host,
	                      .g = g,
	                      .ground = *ground,
	                      .on_exit = on_exit,
	                      .failed = failed,
	                      .images_fd = images_fd,
	                      .net_fd = memory_open_net(ground->pid),
	                      .result_fd = -1,
	                      .root_fd = -1,
	                      .usr_fd = -1,
	                      .mounts = BUF_INIT(MOUNTS_MAX),
	                      .confinement =
	                              BUF_INIT(CONFINEMENT_MAX * sizeof(struct confinement))};
	list_init(&v->link);
	criu_init(&v->criu);
	g->revival = v;
	r = loop_child_take(g->host->loop, pidfd, on_founder_exit, v, &v->founder);
	if (r == 0)
		r = v->net_fd < 0 ? -ESRCH
		                  : loop_io_add(g->host->loop, v->ground.go_fd, EPOLLIN, on_ground,
		                                v, &v->go_io);
	v->is_checked = v->is_parsed_checked = is_known_whole(images_fd);
	if (r == 0 && !v->is_checked)
		r = start_check(v);
	if (r == 0)
		return 0;
	memory_drop_revival(g);
	return err_set(err, ERR_CAPACITY, -r, "cannot revive the memory");
}
