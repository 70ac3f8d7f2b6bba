// SPDX-License-Identifier: Apache-2.0
/* Security depends on the order of the steps, so it is a table. */
#include "daemon/confine/confine.h"

#include "base/process/capabilities.h"

#include <assert.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* For files of all owners, processes of all users, ids and namespaces, mounts, control groups,
 * networks. */
#define OF_BROKER                                                                                  \
	(BIT64(CAP_CHOWN) | BIT64(CAP_DAC_OVERRIDE) | BIT64(CAP_DAC_READ_SEARCH) |                 \
	 BIT64(CAP_FOWNER) | BIT64(CAP_FSETID) | BIT64(CAP_KILL) | BIT64(CAP_SETGID) |             \
	 BIT64(CAP_SETUID) | BIT64(CAP_NET_BIND_SERVICE) | BIT64(CAP_NET_ADMIN) |                  \
	 BIT64(CAP_SYS_CHROOT) | BIT64(CAP_SYS_PTRACE) | BIT64(CAP_SYS_ADMIN) |                    \
	 BIT64(CAP_SYS_NICE) | BIT64(CAP_SYS_RESOURCE) | BIT64(CAP_MKNOD) | BIT64(CAP_SETFCAP))
/* Also those that CRIU needs, and those that the parts drop only after they have used them. */
#define OF_ALL                                                                                     \
	(OF_BROKER | BIT64(CAP_SETPCAP) | BIT64(CAP_IPC_LOCK) | BIT64(CAP_IPC_OWNER) |             \
	 BIT64(CAP_LEASE) | BIT64(CAP_CHECKPOINT_RESTORE))
/* For signals to parts that run as other users, and for settings and keys in directories of any
 * user. */
#define OF_LAUNCHER (BIT64(CAP_KILL) | BIT64(CAP_DAC_OVERRIDE))

static const struct {
	const char *name;
	uint64_t caps; /* that it keeps */
} parts[] = {
	[CONFINE_GATEWAY] = {"gateway", 0},
	[CONFINE_DIALER] = {"dialer", 0},
	[CONFINE_WALL] = {"wall", 0},
	[CONFINE_LAUNCHER] = {"launcher", OF_LAUNCHER},
	[CONFINE_BROKER] = {"broker", OF_BROKER},
	[CONFINE_MEMBER] = {"member", 0},
};
static_assert(ARRAY_SIZE(parts) == CONFINE_PART_COUNT, "a part has no row");

/* Each connection, exec and file costs an fd; no core file may hold keys. */
static int set_rlimits(const struct confine_plan *plan)
{
	const struct rlimit no_core = {0};
	struct rlimit files;

	if (plan->uid == 0)
		return 0;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &no_core) < 0)
		return -errno;
	return 0;
}

static int enter_root(const struct confine_plan *plan)
{
	if (!plan->root_dir)
		return 0;
	return chroot(plan->root_dir) < 0 || chdir("/") < 0 ? -errno : 0;
}

static int cut_bounding_set(const struct confine_plan *plan)
{
	return capabilities_bound(parts[plan->part].caps);
}

static int become_user(const struct confine_plan *plan)
{
	if (plan->uid == 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(plan->gid, plan->gid, plan->gid) < 0 ||
	    setresuid(plan->uid, plan->uid, plan->uid) < 0)
		return -errno;
	return 0;
}

static int cut_capabilities(const struct confine_plan *plan)
{
	return capabilities_keep(parts[plan->part].caps, /* inheritable= */ 0);
}

static int seal_process(const struct confine_plan *plan)
{
	if ((plan->uid != 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

/* The thread has the rights that this process still has here, and the filter applies to both. */
static int start_work(const struct confine_plan *plan)
{
	return plan->ret_work ? work_new(plan->ret_work) : 0;
}

static int filter_calls(const struct confine_plan *plan)
{
	return confine_calls(plan->part);
}

static const struct {
	const char *name;
	int (*run)(const struct confine_plan *plan);
} steps[] = {
	{"resource limits", set_rlimits},
	{"root directory", enter_root},     /* needs root; no host path has a name after it */
	{"bounding set", cut_bounding_set}, /* needs root, too */
	{"user", become_user},              /* from here on most are not root */
	{"capabilities", cut_capabilities},
	{"no new privileges", seal_process}, /* the filter needs it */
	{"work thread", start_work},         /* no other can be made after the next */
	{"system calls", filter_calls},      /* last: it forbids what the steps above did */
};

int confine(const struct confine_plan *plan, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r = steps[i].run(plan);

		if (r < 0)
			return err_set(err, ERR_INTERNAL, -r, "cannot confine the %s: %s",
			               parts[plan->part].name, steps[i].name);
	}
	return 0;
}

int confine_all(struct err *err)
{
	int r = capabilities_bound(OF_ALL);

	if (r == 0)
		r = capabilities_keep(OF_ALL, /* inheritable= */ 0);
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot give up capabilities") : 0;
}
