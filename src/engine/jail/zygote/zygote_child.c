// SPDX-License-Identifier: Apache-2.0
/*
 * The template's files keep their owners here, which T does not map. So the zygote can read what
 * any user may read, and a sandbox's user can read the same.
 */
#include "engine/jail/zygote/zygote_child.h"

#include "base/fd.h"
#include "engine/layer/own_tmpfs.h"
#include "engine/linux/namespaces.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define BROKER_FD     3 /* where the interpreter finds it */
#define CAPS          (BIT64(CAP_SYS_ADMIN) | BIT64(CAP_SYS_CHROOT))
#define USR_OPTIONS   "lowerdir=t/usr:b"
#define IMAGE_OPTIONS "lowerdir=t/fit:b"
#define TMP_OPTIONS   "mode=1777,size=64m,nr_inodes=4096"
#define PATH          "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define DRIVER        "/opt/cloche/kernels/python"
/* As long as the longest tag (START_TAG_MAX): each fork writes its own over it. */
#define MARK "CLOCHE_EXEC=----------------------------------------------------------------"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "which audit architecture is this?"
#endif
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

/* The jail's filter, which is loaded first, checks the architecture. */
const struct sock_filter zygote_no_setns[] = {
	LOAD(nr),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setns, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
const size_t zygote_no_setns_len = ARRAY_SIZE(zygote_no_setns);

/* Put before the jail's filter: allows setns() for this architecture only. */
static const struct sock_filter setns_passes[] = {
	LOAD(arch),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 0, 3),
	LOAD(nr),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setns, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static struct zygote_orders orders;
static int mounts[ZYGOTE_MOUNT_COUNT], broker_fd;

static int await_orders(struct jail *jail, struct err *err)
{
	int fds[FD_PASS_MAX];
	size_t n = 0;
	ssize_t r = fd_recv(jail->go_fd, &orders, sizeof(orders), fds, &n);

	if (r != sizeof(orders) || n != ZYGOTE_MOUNT_COUNT + 1)
		return err_set(err, ERR_INTERNAL, r < 0 ? (int)-r : EPIPE, "the broker went away");
	orders.warm[sizeof(orders.warm) - 1] = '\0';
	memcpy(mounts, fds, sizeof(mounts));
	broker_fd = fds[ZYGOTE_MOUNT_COUNT];
	CPU_ZERO(&jail->cpus);
	if (sched_getaffinity(0, sizeof(jail->cpus), &jail->cpus) < 0)
		return err_set(err, ERR_INTERNAL, errno, "sched_getaffinity");
	return 0;
}

/* Takes the zygote's id, but keeps all capabilities: the mounts need them. */
static int take_identity(struct jail *jail, struct err *err)
{
	(void)jail;
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 ||
	    setgroups(0, NULL) < 0 ||
	    setresgid(NAMESPACES_ZYGOTE_ID, NAMESPACES_ZYGOTE_ID, NAMESPACES_ZYGOTE_ID) < 0 ||
	    setresuid(NAMESPACES_ZYGOTE_ID, NAMESPACES_ZYGOTE_ID, NAMESPACES_ZYGOTE_ID) < 0 ||
	    prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot become the zygote's user");
	return 0;
}

static int mount_template(void)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_RDONLY;

	if (!orders.is_host)
		return mount("overlay", "r", "overlay", flags, IMAGE_OPTIONS);
	if (mount("t/root", "r", NULL, MS_BIND, NULL) < 0)
		return -1;
	return mount("overlay", "r/usr", "overlay", flags, USR_OPTIONS);
}

static int mount_root(struct jail *jail, struct err *err)
{
	static const char *const places[] = {
		[ZYGOTE_MOUNT_TEMPLATE] = "t",
		[ZYGOTE_MOUNT_BASE] = "b",
		[ZYGOTE_MOUNT_OWN_TMPFS] = "s",
	};

	(void)jail;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (mkdir(places[i], 0700) < 0 ||
		    move_mount(mounts[i], "", AT_FDCWD, places[i], MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot attach mount '%s'",
			               places[i]);
		(void)close(mounts[i]);
	}
	if (mkdir("r", 0700) < 0 || mount_template() < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount the root");
	if (mount("s/" OWN_TMPFS_DEV, "r/dev", NULL, MS_BIND, NULL) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount dev");
	if (mount("tmpfs", "r/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, TMP_OPTIONS) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount tmp");
	return 0;
}

static int give_name(struct jail *jail, struct err *err)
{
	static const char name[] = "zygote";

	(void)jail;
	return sethostname(name, strlen(name)) < 0
	               ? err_set(err, ERR_INTERNAL, errno, "sethostname")
	               : 0;
}

/* status_fd closes with the exec, which tells the broker. */
static int sort_fds(struct jail *jail, struct err *err)
{
	int r = jail_forget_fds();

	if (r == 0 && jail->status_fd == BROKER_FD) {
		jail->status_fd = fcntl(BROKER_FD, F_DUPFD_CLOEXEC, BROKER_FD + 1);
		r = jail->status_fd < 0 ? -errno : 0;
	}
	if (r == 0 && broker_fd == BROKER_FD)
		r = fcntl(BROKER_FD, F_SETFD, 0) < 0 ? -errno : 0;
	else if (r == 0)
		r = dup2(broker_fd, BROKER_FD) < 0 ? -errno : 0;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot sort the fds") : 0;
}

/* The exec of a program as another user than root keeps only ambient capabilities. */
static int drop_caps(struct jail *jail, struct err *err)
{
	int r = jail_keep_caps(CAPS, /* inheritable= */ CAPS, err);

	(void)jail;
	for (unsigned cap = 0; r == 0 && cap < 64; cap++)
		if (CAPS & BIT64(cap) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			r = err_set(err, ERR_INTERNAL, errno, "cannot keep capability %u", cap);
	return r;
}

static int load_filter(struct jail *jail, struct err *err)
{
	static struct seccomp_program program;
	int r;

	if (jail->filter->len + ARRAY_SIZE(setns_passes) > SECCOMP_PROGRAM_MAX)
		return err_set(err, ERR_INTERNAL, E2BIG, "the system call filter is too long");
	memcpy(program.code, setns_passes, sizeof(setns_passes));
	memcpy(program.code + ARRAY_SIZE(setns_passes), jail->filter->code,
	       jail->filter->len * sizeof(jail->filter->code[0]));
	program.len = (unsigned short)(jail->filter->len + ARRAY_SIZE(setns_passes));
	r = seccomp_load_program(&program);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot load the filter") : 0;
}

static int exec_interpreter(struct jail *jail, struct err *err)
{
	char warm[ZYGOTE_WARM_MAX + 16];
	char *const argv[] = {unconst("python3"), unconst(DRIVER), NULL};
	char *const env[] = {unconst(MARK),
	                     unconst("PATH=" PATH),
	                     unconst("HOME=/tmp"),
	                     unconst("LANG=C.UTF-8"),
	                     unconst("CLOCHE_ZYGOTE=1"),
	                     unconst("GLIBC_TUNABLES=glibc.pthread.rseq=0"), /* see turn.py */
	                     warm,
	                     NULL};
	int errnum = ENOENT;

	(void)jail;
	(void)snprintf(warm, sizeof(warm), "CLOCHE_WARM=%s", orders.warm);
	for (const char *at = PATH; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
		char path[64];

		(void)snprintf(path, sizeof(path), "%.*s/python3", (int)strcspn(at, ":"), at);
		(void)execve(path, argv, env);
		if (errno != ENOENT)
			errnum = errno;
	}
	return err_set(err, ERR_NOT_FOUND, errnum, "cannot run python3");
}

static const struct jail_step steps[] = {
	{"oom-score", jail_set_oom_score},
	{"orders", await_orders},
	{"session", jail_leave_session},
	{"cgroup-namespace", jail_unshare_cgroup}, /* after the group was joined */
	{"staging", jail_mount_staging},           /* needs the host root's eyes */
	{"identity", take_identity}, /* from here on the host's files are a stranger's */
	{"root", mount_root},
	{"names", give_name},
	{"pivot", jail_pivot}, /* from here on no host path has a name */
	{"rlimits", jail_set_rlimits},
	{"keyring", jail_leave_keyring},
	{"fds", sort_fds},
	{"caps", drop_caps},      /* sets no_new_privs, which the filter needs */
	{"seccomp", load_filter}, /* last: it forbids what the steps above did */
	{"exec", exec_interpreter},
};

void zygote_child_run(struct jail *jail)
{
	jail_run_steps(jail, "zygote", steps, ARRAY_SIZE(steps));
}
