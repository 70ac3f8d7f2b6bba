// SPDX-License-Identifier: Apache-2.0
/*
 * A child is cloned by a helper: a process that lives for this one clone. The order of its steps is
 * forced. It takes the uid that will own the sandbox's user namespace. Then it sets fsuid to
 * root's, which needs root's capabilities over the host. Then it enters T, from which no process
 * comes back. The helper shares the spawner's memory and descriptors, so it costs little.
 *
 * Making a net namespace takes as long as the rest of a clone, so the one for the next guest is
 * made after the reply for this one.
 */
#include "engine/guest/spawner_process.h"

#include "base/fd.h"
#include "base/process/capabilities.h"
#include "engine/guest/child_orders.h"
#include "engine/guest/guest.h"
#include "engine/linux/namespaces.h"
#include "engine/linux/spawner_limits.h"
#include "engine/linux/syscalls.h"

#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define STACK_SIZE (1U << 20)

/* The capabilities to take an owner's uid and root's fsuid, and to enter namespaces. Once in T, a
 * helper has all capabilities over T, and a process with its own user namespace has all in that. */
#define CAPS (BIT64(CAP_SETUID) | BIT64(CAP_SYS_ADMIN))

struct self {
	int fd, agent_fd, userns_fd;
	int net_fd;   /* what a helper has made; else -1 */
	bool has_net; /* one that no guest has got yet */
	char *stack;  /* of the helper that is under way; there is never more than one */
};

/* What a helper is to make. */
struct spawn {
	struct guest_host *host;
	struct self *self;
	const struct spawner_request *req;
	const int *fds;
	size_t n_fds;
	struct hatched *ret;
	int r;
};

static int set_uid(uid_t uid)
{
	/* Not libc's function, which would signal threads that only the broker had. */
	if (syscall(SYS_setresuid, uid, uid, uid) < 0)
		return -errno;
	(void)setfsuid(0);
	return setfsuid((uid_t)-1) == 0 ? 0 : -EPERM; /* asks only */
}

/* Keeps capabilities across changes of ids; entering T resets this. */
static int leave_groups(void)
{
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 ||
	    setgroups(0, NULL) < 0 ||
	    setresgid(NAMESPACES_SPAWNER_ID, NAMESPACES_SPAWNER_ID, NAMESPACES_SPAWNER_ID) < 0)
		return -errno;
	(void)setfsgid(0);
	return 0;
}

static int enter(const struct self *self, uid_t uid)
{
	int r = set_uid(uid);

	return r == 0 && setns(self->userns_fd, CLONE_NEWUSER) < 0 ? -errno : r;
}

/* Runs fn(arg) in a process that shares our memory and descriptors but has its own ids and
 * namespaces, and waits for it. */
static pid_t run_helper(const struct self *self, int (*fn)(void *arg), void *arg, int flags)
{
	pid_t pid = clone(fn, self->stack + STACK_SIZE,
	                  CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD | flags, arg);

	return pid < 0 ? -errno : pid;
}

static int make_net(void *arg)
{
	struct self *self = arg;
	struct err err;

	if (enter(self, NAMESPACES_SPAWNER_ID) == 0 && namespaces_enter_new_net(&err) == 0)
		self->net_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	return 0;
}

/* Made inside T, so that T owns it; we hold it until the next guest gets it. */
static int enter_new_net(struct self *self)
{
	pid_t pid = run_helper(self, make_net, self, 0);
	auto_fd int fd = -1;

	if (pid < 0)
		return pid;
	(void)waitpid(pid, NULL, 0);
	fd = take_fd(&self->net_fd);
	if (fd < 0)
		return -ENOSPC;
	if (setns(fd, CLONE_NEWNET) < 0)
		return -errno;
	self->has_net = true;
	return 0;
}

static int open_socket(struct self *self)
{
	int fd;

	self->has_net = false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* Clones a child of the broker (CLONE_PARENT), so that the broker reaps it, and adopts it after a
 * restart. */
static pid_t clone_sibling(uint64_t flags, int group_fd, int *ret_pidfd)
{
	struct clone_args args = {
		.flags = CLONE_PARENT | CLONE_PIDFD | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS |
	                 flags,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
	};

	if (group_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)group_fd;
	}
	return sys_clone3(&args);
}

static bool is_guest(const struct spawner_request *req)
{
	return req->kind == SPAWNER_GUEST || req->kind == SPAWNER_VM ||
	       req->kind == SPAWNER_FOUNDER;
}

/* In T, as the owner of what is made. */
static int clone_child(struct spawn *s)
{
	const struct spawner_request *req = s->req;
	const bool is_zygote = req->kind == SPAWNER_ZYGOTE;
	/* A zygote stays in the host's pid namespace: it can enter only those below its own. */
	const uint64_t flags =
		(is_zygote ? 0 : CLONE_NEWUSER | CLONE_NEWPID) | (is_guest(req) ? 0 : CLONE_NEWNET);
	struct jail jail = {.filter = &s->host->filter,
	                    .shares = s->host->shares,
	                    .staging = s->host->sandboxes_dir,
	                    .owner = is_zygote ? NAMESPACES_ZYGOTE_ID : 0,
	                    .agent_fd = s->self->agent_fd,
	                    .go_fd = s->fds[0],
	                    .status_fd = s->fds[1],
	                    .listen_fd = -1};
	struct err err;
	int r = enter(s->self, is_zygote ? NAMESPACES_SPAWNER_ID : namespaces_owner_id(req->slot));

	if (r < 0)
		return r;
	s->ret->pid = clone_sibling(flags, s->n_fds > 2 ? s->fds[2] : -1, &s->ret->pidfd);
	if (s->ret->pid < 0)
		return -errno;
	if (s->ret->pid == 0) {
		(void)close(s->self->fd);
		(void)close(s->self->userns_fd);
		s->host->mains[req->kind](&jail);
		_exit(1);
	}
	if (!is_zygote && namespaces_write_id_maps(s->ret->pid, req->slot, &err) < 0)
		return -err.errnum;
	return 0;
}

static int help(void *arg)
{
	struct spawn *s = arg;

	s->r = clone_child(s);
	return 0;
}

/* Leaves out of the children's memory, or takes back into it, every library but libc and the
 * loader: three in four of the mappings. A child that executes another program soon calls none of
 * them, but would have them copied and torn down again. */
static int advise_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t kept[] = {(uintptr_t)&_exit, getauxval(AT_BASE), getauxval(AT_SYSINFO_EHDR),
	                          (uintptr_t)&advise_library};
	const int *advice = arg;
	const ElfW(Phdr) * p;

	(void)size;
	for (p = info->dlpi_phdr; p < info->dlpi_phdr + info->dlpi_phnum; p++)
		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			if (p->p_type == PT_LOAD &&
			    kept[i] - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
				return 0;
	for (p = info->dlpi_phdr; p < info->dlpi_phdr + info->dlpi_phnum; p++) {
		const uintptr_t from = (info->dlpi_addr + p->p_vaddr) & ~(page - 1);
		const uintptr_t to = info->dlpi_addr + p->p_vaddr + p->p_memsz;

		if (p->p_type == PT_LOAD) /* a failure costs time only */
			(void)madvise((void *)from, to - from, *advice);
	}
	return 0;
}

static void advise_libraries(int advice)
{
#ifndef __SANITIZE_ADDRESS__ /* whose library every function calls */
	(void)dl_iterate_phdr(advise_library, &advice);
#else
	(void)advice;
	(void)advise_library;
#endif
}

static int hatch(struct guest_host *host, struct self *self, const struct spawner_request *req,
                 const int *fds, size_t n_fds, struct hatched *ret, pid_t *ret_helper)
{
	struct spawn spawn = {.host = host,
	                      .self = self,
	                      .req = req,
	                      .fds = fds,
	                      .n_fds = n_fds,
	                      .ret = ret,
	                      .r = -ECHILD};
	pid_t pid;
	int r = 0;

	if (req->kind >= SPAWNER_KINDS || !host->mains[req->kind] ||
	    req->slot >= NAMESPACES_SLOTS_MAX)
		return -EINVAL;
	if (is_guest(req) && !self->has_net)
		r = enter_new_net(self);
	if (r == 0 && is_guest(req))
		r = ret->socket_fd = open_socket(self);
	if (r < 0)
		return r;
	if (req->kind == SPAWNER_IMAGE_BUILD) /* which unpacks and hashes */
		advise_libraries(MADV_DOFORK);
	/* The helper is a child of the broker too, so that its siblings are. */
	pid = run_helper(self, help, &spawn, CLONE_PARENT);
	if (req->kind == SPAWNER_IMAGE_BUILD)
		advise_libraries(MADV_DONTFORK);
	if (pid < 0)
		return pid;
	*ret_helper = pid;
	return spawn.r;
}

static void answer(struct self *self, int r, const struct hatched *h, pid_t helper)
{
	struct spawner_reply reply = {.errnum = r < 0 ? -r : 0, .pid = h->pid, .helper = helper};
	const int fds[] = {h->pidfd, h->socket_fd};
	size_t n = h->pidfd < 0 ? 0 : h->socket_fd < 0 ? 1 : 2;

	if (fd_send(self->fd, &reply, sizeof(reply), fds, n) < 0)
		_exit(1);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

static void serve_one(struct guest_host *host, struct self *self)
{
	struct hatched h = {.pid = -1, .pidfd = -1, .socket_fd = -1};
	struct spawner_request req;
	int fds[FD_PASS_MAX], r;
	size_t n_fds = 0;
	pid_t helper = 0;

	if (fd_recv(self->fd, &req, sizeof(req), fds, &n_fds) != sizeof(req) || n_fds < 2)
		_exit(0); /* the broker is gone */
	r = hatch(host, self, &req, fds, n_fds, &h, &helper);
	for (size_t i = 0; i < n_fds; i++)
		(void)close(fds[i]);
	answer(self, r, &h, helper);
	if (!self->has_net)
		(void)!enter_new_net(self); /* else the next guest tries again */
}

/* fds 0, 1 and 2 must be open, or a new socket would get one of these numbers. */
static int shed_fds(const struct self *self)
{
	auto_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	unsigned next = STDERR_FILENO + 1;

	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		if (dup2(null, fd) < 0)
			return -errno;
	if (null < 0)
		return -errno;
	for (;;) { /* what lies between those that are kept */
		const int kept[] = {self->fd, self->agent_fd, self->userns_fd};
		unsigned until = ~0U;

		for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
			if ((unsigned)kept[i] >= next)
				until = MIN(until, (unsigned)kept[i]);
		if (until > next && close_range(next, until == ~0U ? until : until - 1, 0) < 0)
			return -errno;
		if (until == ~0U)
			break;
		next = until + 1;
	}
	null = -1;
	return 0;
}

/* Sets signals as every child needs them: children inherit them and set none themselves. */
static void reset_signals(void)
{
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL); /* some numbers cannot be set, and need not */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

int spawner_found_run(const struct starter_order *order, void *arg)
{
	const struct guest_host *host = arg;
	const int fd = order->fds[0];
	int r = leave_groups();
	char mapped;

	spawner_limits_raise();
	if (r == 0)
		r = set_uid(NAMESPACES_SPAWNER_ID);
	if (r < 0 || unshare(CLONE_NEWUSER) < 0 || send(fd, "u", 1, MSG_NOSIGNAL) != 1 ||
	    recv(fd, &mapped, 1, 0) != 1)
		_exit(1);
	spawner_limits_write(host->shares);
	_exit(0);
}

int spawner_run(const struct starter_order *order, void *arg)
{
	struct guest_host *host = arg;
	struct self self = {.fd = order->fds[0],
	                    .agent_fd = host->agent_fd,
	                    .userns_fd = order->fds[1],
	                    .net_fd = -1};
	int r;

	reset_signals();
	(void)prctl(PR_SET_NAME, "cloche-spawner", 0, 0, 0);
	(void)setsid();
	spawner_limits_lower(host->sandboxes_max);
	self.stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	r = self.stack == MAP_FAILED ? -errno : leave_groups();
	if (r == 0)
		r = set_uid(NAMESPACES_SPAWNER_ID);
	if (r == 0)
		r = capabilities_bound(CAPS);
	if (r == 0)
		r = capabilities_keep(CAPS, /* inheritable= */ 0);
	if (r == 0)
		r = shed_fds(&self);
	answer(&self, r, &(struct hatched){.pidfd = -1, .socket_fd = -1}, 0);
	if (r < 0)
		_exit(1);
	advise_libraries(MADV_DONTFORK);
	for (;;)
		serve_one(host, &self);
}
