// SPDX-License-Identifier: Apache-2.0
/*
 * The order in the spawner's start is forced: fsuid can be set to root's only by one who still has
 * root's capabilities over the host, and T can only be entered by one who has not lost them.
 *
 * A net namespace takes as long to make as everything else of a clone, so the one for the next
 * guest is made behind the reply to this one.
 */
#include "engine/guest/spawner_process.h"

#include "base/capabilities.h"
#include "base/fd.h"
#include "engine/guest/child_orders.h"
#include "engine/guest/guest.h"
#include "engine/linux/namespaces.h"
#include "engine/linux/syscalls.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* Over T: to write maps, to make namespaces and a net's `lo`, and what a zygote keeps of it. Those
 * that get a user namespace of their own have all there, whatever was left here. */
#define CAPS                                                                                       \
	(BIT64(CAP_DAC_OVERRIDE) | BIT64(CAP_SETUID) | BIT64(CAP_SETGID) | BIT64(CAP_SETPCAP) |    \
	 BIT64(CAP_NET_ADMIN) | BIT64(CAP_SYS_CHROOT) | BIT64(CAP_SYS_ADMIN))

struct self {
	int fd, agent_fd;
	bool has_net; /* one that no guest has got yet */
};

static int leave_root(void)
{
	/* Capabilities stay through the changes of ids; T, once entered, resets this. */
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 ||
	    setgroups(0, NULL) < 0 ||
	    setresgid(NAMESPACES_SPAWNER_ID, NAMESPACES_SPAWNER_ID, NAMESPACES_SPAWNER_ID) < 0 ||
	    setresuid(NAMESPACES_SPAWNER_ID, NAMESPACES_SPAWNER_ID, NAMESPACES_SPAWNER_ID) < 0)
		return -errno;
	(void)setfsgid(0);
	(void)setfsuid(0);
	return setfsuid((uid_t)-1) == 0 ? 0 : -EPERM; /* asks only */
}

static int move_in(int fd, int userns_fd)
{
	char mapped;
	int r = leave_root();

	if (r == 0 && userns_fd >= 0)
		return setns(userns_fd, CLONE_NEWUSER) < 0 ? -errno : 0;
	if (r == 0 && unshare(CLONE_NEWUSER) < 0)
		r = -errno;
	if (r == 0 && send(fd, "u", 1, MSG_NOSIGNAL) != 1)
		r = -errno;
	if (r == 0 && recv(fd, &mapped, 1, 0) != 1)
		r = -EPIPE;
	return r;
}

static int open_socket(struct self *self, struct err *err)
{
	int fd, r = self->has_net ? 0 : namespaces_enter_new_net(err);

	if (r < 0)
		return r;
	self->has_net = false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* Of the broker's, as its children are: so it reaps them, and adopts them after a restart. */
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

static int hatch(struct guest_host *host, struct self *self, const struct spawner_request *req,
                 const int *fds, size_t n_fds, struct hatched *ret)
{
	const bool is_guest = req->kind == SPAWNER_GUEST || req->kind == SPAWNER_VM ||
	                      req->kind == SPAWNER_FOUNDER;
	const bool is_zygote = req->kind == SPAWNER_ZYGOTE;
	/* A zygote shares the host's pids: it can enter only those below its own. */
	const uint64_t flags =
		(is_zygote ? 0 : CLONE_NEWUSER | CLONE_NEWPID) | (is_guest ? 0 : CLONE_NEWNET);
	struct jail jail = {.filter = &host->filter,
	                    .staging = host->sandboxes_dir,
	                    .owner = is_zygote ? NAMESPACES_ZYGOTE_ID : 0,
	                    .agent_fd = self->agent_fd,
	                    .go_fd = fds[0],
	                    .status_fd = fds[1],
	                    .listen_fd = -1};
	struct err err;
	int r = 0;

	if (req->kind >= SPAWNER_KINDS || !host->mains[req->kind])
		return -EINVAL;
	if (is_guest)
		r = ret->socket_fd = open_socket(self, &err);
	if (r < 0)
		return r;
	ret->pid = clone_sibling(flags, n_fds > 2 ? fds[2] : -1, &ret->pidfd);
	if (ret->pid < 0)
		return -errno;
	if (ret->pid == 0) {
		(void)close(self->fd);
		host->mains[req->kind](&jail);
		_exit(1);
	}
	if (!is_zygote && namespaces_write_id_maps(ret->pid, req->slot, &err) < 0)
		return -err.errnum;
	return 0;
}

static void answer(struct self *self, int r, const struct hatched *h)
{
	struct spawner_reply reply = {.errnum = r < 0 ? -r : 0, .pid = h->pid};
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
	struct err err;

	if (fd_recv(self->fd, &req, sizeof(req), fds, &n_fds) != sizeof(req) || n_fds < 2)
		_exit(0); /* the broker is gone */
	r = hatch(host, self, &req, fds, n_fds, &h);
	for (size_t i = 0; i < n_fds; i++)
		(void)close(fds[i]);
	answer(self, r, &h);
	if (!self->has_net)
		self->has_net = namespaces_enter_new_net(&err) == 0;
}

/* 0, 1 and 2 must be something, or a socket would be born there. */
static int shed_fds(const struct self *self)
{
	const unsigned low = (unsigned)MIN(self->fd, self->agent_fd);
	const unsigned high = (unsigned)MAX(self->fd, self->agent_fd);
	auto_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		if (dup2(null, fd) < 0)
			return -errno;
	if (null < 0 || close_range(high + 1, ~0U, 0) < 0 ||
	    (low > STDERR_FILENO + 1 && close_range(STDERR_FILENO + 1, low - 1, 0) < 0) ||
	    (high > low + 1 && close_range(low + 1, high - 1, 0) < 0))
		return -errno;
	null = -1;
	return 0;
}

int spawner_run(const struct starter_order *order, void *arg)
{
	struct guest_host *host = arg;
	struct self self = {.fd = order->fds[0], .agent_fd = host->agent_fd};
	sigset_t none;
	int r;

	/* As every child shall have them: it inherits them and sets none itself. */
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL); /* some numbers cannot be set, and need not */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)prctl(PR_SET_NAME, "cloche-spawner", 0, 0, 0);
	(void)setsid();
	r = move_in(self.fd, order->n_fds > 1 ? order->fds[1] : -1);
	if (r == 0)
		r = capabilities_bound(CAPS);
	if (r == 0)
		r = capabilities_keep(CAPS, /* inheritable= */ 0);
	if (r == 0)
		r = shed_fds(&self);
	answer(&self, r, &(struct hatched){.pidfd = -1, .socket_fd = -1});
	if (r < 0)
		_exit(1);
	for (;;)
		serve_one(host, &self);
}
