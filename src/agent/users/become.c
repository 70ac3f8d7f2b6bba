// SPDX-License-Identifier: Apache-2.0
/*
 * The order is the security: what needs a privilege comes before the step that gives it up.
 *
 * Core dumps: with a piped core_pattern the host's kernel would start the host's helper for a crash
 * in here. A limit of 1 is the one value for which the kernel starts none (fs/coredump.c; 0 stops
 * only files), and no core file fits into one byte.
 */
#include "agent/users/become.h"

#include "base/fd.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define OOM_SCORE "500" /* before the agent, should the host's memory run out */

int become_member(const struct settings *s, struct err *err)
{
	sigset_t none;

	(void)signal(SIGPIPE, SIG_DFL); /* the agent's one exception, see main.c */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < s->n_cgroup_fds; i++)
		if (write(s->cgroup_fds[i], "0", 1) != 1)
			return err_set(err, ERR_INTERNAL, errno,
			               "cannot join the sandbox's cgroup");
	(void)!fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", OOM_SCORE);
	return 0;
}

struct becoming {
	const struct settings *settings;
	const struct identity *id;
	uint64_t caps; /* what is kept */
};

static int set_limits(const struct becoming *b)
{
	struct rlimit core = {1, 1};
	struct rlimit files = {b->settings->open_files, b->settings->open_files};

	(void)umask(022);
	if (setrlimit(RLIMIT_CORE, &core) < 0)
		return -errno;
	if (b->settings->open_files > 0 && setrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	return 0;
}

/* Without SETPCAP the bounding set stays; then only no_new_privs keeps an execve() by root from
 * raising its capabilities to that set, so it must be there. */
static int cut_bounding(const struct becoming *b)
{
	for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++) {
		if (b->caps & BIT64(cap) || prctl(PR_CAPBSET_READ, cap, 0, 0, 0) != 1)
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (geteuid() != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
			return 0;
		return -errno;
	}
	return 0;
}

static int set_groups(const struct becoming *b)
{
	return setgroups(b->id->n_groups, b->id->groups) < 0 ? -errno : 0;
}

static int set_gid(const struct becoming *b)
{
	return setresgid(b->id->gid, b->id->gid, b->id->gid) < 0 ? -errno : 0;
}

static int set_uid(const struct becoming *b)
{
	return setresuid(b->id->uid, b->id->uid, b->id->uid) < 0 ? -errno : 0;
}

static int cut_caps(const struct becoming *b)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	for (unsigned i = 0; i < 2; i++) {
		uint32_t keep = (uint32_t)(b->caps >> (32 * i));

		data[i].permitted &= keep;
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

/* clang-format off */
static const struct {
	const char *name;
	int (*run)(const struct becoming *b);
	bool is_identity; /* needs privilege: skipped by an agent that already is the user */
} steps[] = {
	{"limits",       set_limits,   false},
	{"bounding set", cut_bounding, false},
	{"groups",       set_groups,   true},
	{"gid",          set_gid,      true},
	{"uid",          set_uid,      true}, /* not root: takes all capabilities with it */
	{"capabilities", cut_caps,     false},
};
/* clang-format on */

int become_user(const struct settings *s, const struct identity *id, struct err *err)
{
	struct becoming b = {.settings = s, .id = id, .caps = id->uid == 0 ? s->root_caps : 0};
	bool is_self = geteuid() != 0 && geteuid() == id->uid;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r = is_self && steps[i].is_identity ? 0 : steps[i].run(&b);

		if (r < 0)
			return err_set(err, ERR_FORBIDDEN, -r, "user: cannot become uid %u (%s)",
			               (unsigned)id->uid, steps[i].name);
	}
	return 0;
}

/* Files belong to the ids that the kernel keeps for them alone; to set those costs root his
 * capabilities over files, which are his to take again. */
int become_root_for(const struct settings *s, const struct identity *user, struct err *err)
{
	const struct identity root = {0};
	const struct becoming b = {.settings = s, .id = &root, .caps = s->root_caps};
	int r;

	if (geteuid() != 0 || user->uid == 0)
		return become_user(s, user, err);
	r = become_user(s, &root, err);
	if (r < 0)
		return r;
	(void)setfsgid(user->gid);
	(void)setfsuid(user->uid);
	r = cut_caps(&b);
	return r < 0 ? err_set(err, ERR_FORBIDDEN, -r, "user: cannot act for uid %u",
	                       (unsigned)user->uid)
	             : 0;
}
