// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/jail_child.h"

#include "base/fd.h"
#include "engine/linux/kernel_share.h"

#include <assert.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Higher than the host's own processes normally have, so that sandboxes die first. */
#define OOM_SCORE "500"

/* The orders come when the id maps are written. */
static int await_orders(struct jail *jail, struct err *err)
{
	static_assert(JAIL_ORDER_FDS <= FD_PASS_MAX, "the orders need a second message");
	size_t others = JAIL_MOUNT_COUNT + 1;
	int fds[FD_PASS_MAX];
	size_t n = 0;
	ssize_t r = fd_recv(jail->go_fd, &jail->orders, sizeof(jail->orders), fds, &n);

	if (r == sizeof(jail->orders))
		others += MIN((size_t)jail->orders.n_join_fds, (size_t)CGROUP_TREES_MAX);
	if (r != sizeof(jail->orders) || n < others || n > JAIL_ORDER_FDS)
		return err_set(err, ERR_INTERNAL, r < 0 ? (int)-r : EPIPE, "the broker went away");
	memcpy(jail->mounts, fds, sizeof(jail->mounts));
	jail->listen_fd = fds[JAIL_MOUNT_COUNT];
	memcpy(jail->join_fds, fds + JAIL_MOUNT_COUNT + 1,
	       (others - JAIL_MOUNT_COUNT - 1) * sizeof(int));
	jail->shown_fd = jail->orders.spec.shows && n > others ? fds[--n] : -1;
	for (size_t i = SHOWN_MAX; i-- > 0;)
		jail->disk_snapshot_fds[i] =
			jail->orders.spec.shown[i][0] && n > others ? fds[--n] : -1;
	for (size_t i = VOLUMES_MAX; i-- > 0;)
		jail->volume_fds[i] =
			jail->orders.spec.volumes[i].id[0] && n > others ? fds[--n] : -1;
	jail->n_user_fds = MIN(n - others, (size_t)CGROUP_TREES_MAX);
	memcpy(jail->user_fds, fds + others, jail->n_user_fds * sizeof(int));
	jail->spec = &jail->orders.spec;
	jail->cpus = jail->orders.cpus;
	return 0;
}

/* Those that the clone did not put us into. Nothing of the guest's has run yet, and nothing runs if
 * this fails. */
static int join_groups(struct jail *jail, struct err *err)
{
	for (size_t i = 0; i < jail->orders.n_join_fds && i < CGROUP_TREES_MAX; i++) {
		if (write(jail->join_fds[i], "0", 1) != 1)
			return err_set(err, ERR_INTERNAL, errno, "cannot join a group");
		(void)close(take_fd(&jail->join_fds[i]));
	}
	return 0;
}

/* Done while we may still write to /proc/self: the next steps change our ids. */
int jail_set_oom_score(struct jail *jail, struct err *err)
{
	(void)jail;
	if (fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", OOM_SCORE) < 0)
		return err_set(err, ERR_INTERNAL, errno, "oom_score_adj");
	return 0;
}

int jail_leave_session(struct jail *jail, struct err *err)
{
	(void)jail;
	if (setsid() < 0)
		return err_set(err, ERR_INTERNAL, errno, "setsid");
	(void)umask(022);
	return 0;
}

/* Done here and not by clone3(), so that the namespace's root is our cgroup and not the
 * broker's. */
int jail_unshare_cgroup(struct jail *jail, struct err *err)
{
	(void)jail;
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_set(err, ERR_INTERNAL, errno, "unshare");
	return 0;
}

/* The last step that uses host paths, still as the host's root. The staging directory belongs to
 * root inside. */
int jail_mount_staging(struct jail *jail, struct err *err)
{
	char options[96];

	(void)snprintf(options, sizeof(options), "mode=700,uid=%u,gid=%u,size=64k,nr_inodes=32",
	               jail->owner, jail->owner);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the mounts private");
	if (mount("tmpfs", jail->staging, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount the staging tmpfs");
	if (chdir(jail->staging) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot enter the staging tmpfs");
	return 0;
}

int jail_become_root(struct jail *jail, struct err *err)
{
	(void)jail;
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot become the range's root");
	return 0;
}

static int write_text(const char *path, const char *text)
{
	auto_fd int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);

	return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

static int give_names(struct jail *jail, struct err *err)
{
	const char *name = jail->spec->hostname;
	unsigned char machine[16];
	char text[160];
	int r;

	if (sethostname(name, strlen(name)) < 0)
		return err_set(err, ERR_INTERNAL, errno, "sethostname");
	(void)snprintf(text, sizeof(text), "%s\n", name);
	r = write_text("r/etc/hostname", text);
	(void)snprintf(text, sizeof(text), "127.0.0.1\tlocalhost %s\n::1\tlocalhost\n", name);
	if (r == 0)
		r = write_text("r/etc/hosts", text);
	random_bytes(machine, sizeof(machine));
	for (size_t i = 0; i < sizeof(machine); i++)
		(void)snprintf(text + 2 * i, sizeof(text) - 2 * i, "%02x\n", machine[i]);
	if (r == 0)
		r = write_text("r/etc/machine-id", text);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write the names in /etc") : 0;
}

int jail_set_rlimits(struct jail *jail, struct err *err)
{
	static const struct {
		__rlimit_resource_t what;
		rlim_t most;
	} limits[] = {
		{RLIMIT_CORE, 1}, /* 1 also stops a core_pattern that is a pipe; 0 would not */
		{RLIMIT_MEMLOCK, 8 << 20}, {RLIMIT_MSGQUEUE, 819200}, {RLIMIT_RTPRIO, 0},
		{RLIMIT_SIGPENDING, 8192}, /* of all its processes, timers among them */
		{RLIMIT_NICE, 0},          {RLIMIT_NOFILE, 1 << 20}, /* the agent's own; execs get
	                                                                CLOCHE_NOFILE */
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit now;

		if (getrlimit(limits[i].what, &now) < 0)
			return err_set(err, ERR_INTERNAL, errno, "getrlimit");
		now.rlim_max = now.rlim_cur = MIN(now.rlim_max, limits[i].most);
		if (setrlimit(limits[i].what, &now) < 0)
			return err_set(err, ERR_INTERNAL, errno, "setrlimit");
	}
	if (sched_setaffinity(0, sizeof(jail->cpus), &jail->cpus) < 0)
		return err_set(err, ERR_INTERNAL, errno, "sched_setaffinity");
	return 0;
}

/* The broker's session keyring may hold the operator's keys. */
int jail_leave_keyring(struct jail *jail, struct err *err)
{
	(void)jail;
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		return err_set(err, ERR_INTERNAL, errno, "keyctl");
	return 0;
}

static int keep_fd(int fd)
{
	return fcntl(fd, F_SETFD, 0) < 0 ? -errno : 0;
}

int jail_forget_fds(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int r = null < 0 ? -errno : 0;

	for (int fd = 0; r == 0 && fd <= STDERR_FILENO; fd++)
		r = dup2(null, fd) < 0 ? -errno : 0;
	if (r == 0 && close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		r = -errno;
	return r;
}

/* Only the fds of the agent's contract survive the exec, whatever else was left open. */
static int sort_fds(struct jail *jail, struct err *err)
{
	int r = jail_forget_fds();

	if (r == 0)
		r = keep_fd(jail->listen_fd);
	if (r == 0)
		r = keep_fd(jail->status_fd);
	for (size_t i = 0; r == 0 && i < jail->n_user_fds; i++)
		r = keep_fd(jail->user_fds[i]);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot sort the fds") : 0;
}

int jail_load_filter(struct jail *jail, struct err *err)
{
	int r = seccomp_load_program(jail->filter);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot load the filter") : 0;
}

/* The agent's contract: it gets these variables and nothing of the host's environment. */
static int exec_agent(struct jail *jail, struct err *err)
{
	char listen[40], ready[40], open_files[40], caps[48], groups[32 + 12 * CGROUP_TREES_MAX];
	char *const argv[] = {unconst("cloche-agent"), NULL};
	char *const env[] = {listen, ready, open_files, caps, groups, NULL};
	const struct guest_limits *l = &jail->spec->limits;
	struct rlimit most;
	size_t len;

	(void)getrlimit(RLIMIT_NOFILE, &most);
	(void)snprintf(listen, sizeof(listen), "CLOCHE_LISTEN_FD=%d", jail->listen_fd);
	(void)snprintf(ready, sizeof(ready), "CLOCHE_READY_FD=%d", jail->status_fd);
	(void)snprintf(open_files, sizeof(open_files), "CLOCHE_NOFILE=%" PRIu64,
	               MIN((uint64_t)kernel_share_open_files(jail->shares, l->open_files, l->pids),
	                   (uint64_t)most.rlim_max));
	(void)snprintf(caps, sizeof(caps), "CLOCHE_CAPS_ROOT=%" PRIx64, jail_caps_of_root());
	len = (size_t)snprintf(groups, sizeof(groups), "CLOCHE_CGROUP_FDS=");
	for (size_t i = 0; i < jail->n_user_fds; i++)
		len += (size_t)snprintf(groups + len, sizeof(groups) - len, "%s%d", i ? "," : "",
		                        jail->user_fds[i]);
	(void)execveat(jail->agent_fd, "", argv, env, AT_EMPTY_PATH);
	return err_set(err, ERR_INTERNAL, errno, "execveat");
}

/* A copy gets new names; a sandbox that is resumed keeps its own. */
static int give_new_names(struct jail *jail, struct err *err)
{
	return jail->spec->is_resumed ? 0 : give_names(jail, err);
}

static int hand_out_root(struct jail *jail, struct err *err)
{
	const bool is_host = digest_is_zero(&jail->spec->image);
	const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
	const int fds[] = {open_tree(AT_FDCWD, "r", flags),
	                   is_host ? open_tree(AT_FDCWD, "r/usr", flags) : -1};
	char byte;

	if (fds[0] < 0 || (is_host && fds[1] < 0))
		return err_set(err, ERR_INTERNAL, errno, "cannot copy the root's mounts");
	if (fd_send(jail->go_fd, "r", 1, fds, is_host ? 2 : 1) != 1)
		return err_set(err, ERR_INTERNAL, errno, "the broker went away");
	(void)!read(jail->go_fd, &byte, 1);
	_exit(0);
}

static const struct jail_step child_steps[] = {
	{"oom-score", jail_set_oom_score},
	{"orders", await_orders}, /* id maps are set by now */
	{"groups", join_groups},
	{"session",
         jail_leave_session}, /* and the spawner's group: spawner_orphan.h counts on that place */
	{"cgroup-namespace", jail_unshare_cgroup}, /* after the groups were joined */
	{"staging", jail_mount_staging},           /* needs the host root's eyes */
	{"identity", jail_become_root}, /* from here on the host's files are a stranger's */
	{"root", jail_mount_root},
	{"volumes", jail_mount_volumes}, /* what comes behind lies over them, should they meet */
	{"proc", jail_mount_proc}, /* while the host's /proc is in sight: the kernel asks for it */
	{"sys", jail_mount_sys},
	{"dev", jail_mount_dev},
	{"names", give_names},
	{"pivot", jail_pivot}, /* from here on no host path has a name */
	{"rlimits", jail_set_rlimits},
	{"keyring", jail_leave_keyring},
	{"fds", sort_fds},
	{"caps", jail_drop_caps},      /* sets no_new_privs, which the filter needs */
	{"seccomp", jail_load_filter}, /* last: it forbids what the steps above did */
	{"exec", exec_agent},
};

static const struct jail_step founder_steps[] = {
	{"oom-score", jail_set_oom_score}, {"orders", await_orders},
	{"session", jail_leave_session},   {"staging", jail_mount_staging},
	{"identity", jail_become_root},    {"root", jail_mount_root},
	{"names", give_new_names},         {"hand-out", hand_out_root},
};

void jail_run_steps(struct jail *jail, const char *whose, const struct jail_step *steps, size_t n)
{
	struct err err = {0};

	for (size_t i = 0; i < n; i++) {
		if (steps[i].run(jail, &err) >= 0)
			continue;
		err_prefix(&err, "%s step '%s'", whose, steps[i].name);
		break;
	}
	(void)!fd_write_all(jail->status_fd, &err, sizeof(err));
	_exit(1);
}

void jail_child_run(struct jail *jail)
{
	jail_run_steps(jail, "jail", child_steps, ARRAY_SIZE(child_steps));
}

void jail_founder_run(struct jail *jail)
{
	jail_run_steps(jail, "jail", founder_steps, ARRAY_SIZE(founder_steps));
}
