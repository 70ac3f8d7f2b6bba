// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/child.h"

#include "base/fd.h"
#include "base/process/slice.h"
#include "base/units.h"
#include "engine/layer/own_tmpfs.h"
#include "engine/vm/boot/machine.h"
#include "engine/vm/shown.h"
#include "vmm/orders.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define LIBRARIES "lib/x86_64-linux-gnu"
#define QEMU      "bin/qemu-system-x86_64"
#define LOADER    "lib64/ld-linux-x86-64.so.2"
#define LOADER_TO "../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
#elif defined(__aarch64__)
#define LIBRARIES "lib/aarch64-linux-gnu"
#define QEMU      "bin/qemu-system-aarch64"
#define LOADER    "lib/ld-linux-aarch64.so.1"
#define LOADER_TO "aarch64-linux-gnu/ld-linux-aarch64.so.1"
#endif
#define ROOT_OPTIONS "mode=755,size=64k,nr_inodes=64"
#define FIRST_HIGH   64 /* above every number that a descriptor is moved to */

static int order_fds[VM_ORDER_FDS], disk_fds[SHOWN_MAX + EROFS_BASES_MAX]; /* shown ones first */
static size_t n_shown, n_disks;

static int await_orders(struct jail *jail, struct err *err)
{
	static_assert((int)VM_ORDER_FDS + CGROUP_TREES_MAX + SHOWN_MAX + EROFS_BASES_MAX <=
	                      FD_PASS_MAX,
	              "one message more");
	int fds[FD_PASS_MAX];
	size_t n = 0, others;
	ssize_t r = fd_recv(jail->go_fd, &jail->orders, sizeof(jail->orders), fds, &n);

	if (r != sizeof(jail->orders))
		return err_set(err, ERR_INTERNAL, r < 0 ? (int)-r : EPIPE, "the broker went away");
	n_shown = shown_count(&jail->orders.spec);
	n_disks = n_shown + jail->orders.n_bases;
	others = VM_ORDER_FDS + n_disks;
	if (jail->orders.n_bases > EROFS_BASES_MAX || n < others || n > others + CGROUP_TREES_MAX)
		return err_set(err, ERR_INTERNAL, EPIPE, "the broker sent %zu fds", n);
	memcpy(order_fds, fds, sizeof(order_fds));
	jail->n_user_fds = n - others;
	memcpy(jail->user_fds, fds + VM_ORDER_FDS, jail->n_user_fds * sizeof(int));
	memcpy(disk_fds, fds + VM_ORDER_FDS + jail->n_user_fds, n_disks * sizeof(int));
	jail->spec = &jail->orders.spec;
	jail->cpus = jail->orders.cpus;
	return 0;
}

static int attach(int *fd, const char *place, struct err *err)
{
	if (mkdir(place, 0700) < 0 ||
	    move_mount(*fd, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot attach mount '%s'", place);
	(void)close(take_fd(fd));
	return 0;
}

static int bind(const char *from, const char *to, bool is_file, struct err *err)
{
	int r = is_file ? mknod(to, S_IFREG | 0644, 0) : mkdir(to, 0755);

	if (r < 0 || mount(from, to, NULL, MS_BIND, NULL) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount '%s'", to + 1);
	return 0;
}

static int make_places(struct err *err)
{
	static const char *const dirs[] = {"r/usr",       "r/usr/lib", "r/usr/bin", "r/usr/share",
	                                   "r/usr/lib64", "r/dev",     "r/proc"};
	static const char *const links[][2] = {
		{"usr/lib", "r/lib"}, {"usr/lib64", "r/lib64"}, {LOADER_TO, "r/usr/" LOADER}};

	if (mkdir("r", 0700) < 0 ||
	    mount("tmpfs", "r", "tmpfs", MS_NOSUID | MS_NODEV, ROOT_OPTIONS) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount the root");
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", dirs[i]);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (symlink(links[i][0], links[i][1]) < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", links[i][1]);
	return 0;
}

static int mount_root(struct jail *jail, struct err *err)
{
	static const struct {
		const char *from, *to;
		bool is_file, is_optional;
	} binds[] = {
		{"u/" LIBRARIES, "r/usr/" LIBRARIES, false, false},
		{"u/" QEMU, "r/usr/" QEMU, true, false},
		{"u/share/qemu", "r/usr/share/qemu", false, true},
		{"u/share/seabios", "r/usr/share/seabios", false, true},
		{"u/share/ipxe", "r/usr/share/ipxe", false, true},
		{"s/" OWN_TMPFS_DEV "/null", "r/dev/null", true, false},
		{"s/" OWN_TMPFS_DEV "/zero", "r/dev/zero", true, false},
		{"s/" OWN_TMPFS_DEV "/urandom", "r/dev/urandom", true, false},
	};
	int r = attach(&order_fds[VM_ORDER_USR], "u", err);

	if (r == 0)
		r = attach(&order_fds[VM_ORDER_OWN_TMPFS], "s", err);
	if (r == 0)
		r = make_places(err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(binds); i++)
		if (!binds[i].is_optional || access(binds[i].from, F_OK) == 0)
			r = bind(binds[i].from, binds[i].to, binds[i].is_file, err);
	if (r == 0 && jail->spec->is_kvm)
		r = bind("s/" OWN_TMPFS_KVM, "r/dev/kvm", /* is_file= */ true, err);
	return r;
}

/* QEMU opens its files by /proc/self/fd; this proc shows only its own processes. */
static int mount_proc(struct jail *jail, struct err *err)
{
	(void)jail;
	if (mount("proc", "r/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "subset=pid") < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount proc");
	return 0;
}

static int seal_root(struct jail *jail, struct err *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

	(void)jail;
	if (mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the root read-only");
	return 0;
}

/* Orders for cloche-vmm, which does not know struct guest_spec. In a machine that shows snapshots,
 * root may read the overlay's own marks on their files; no user code runs there. */
static int write_orders(const struct jail *jail, int *ret_fd)
{
	const struct guest_limits *l = &jail->spec->limits;
	struct vmm_orders orders = {
		.caps_of_root = jail_caps_of_root() | (n_shown > 0 ? BIT64(CAP_SYS_ADMIN) : 0),
		.n_groups = (uint32_t)jail->n_user_fds,
		.n_shown = (uint32_t)n_shown,
		.n_bases = (uint32_t)(n_disks - n_shown),
		.is_kvm = jail->spec->is_kvm,
		.is_copy = jail->spec->with_memory,
		.cpus = machine_cpus(l),
		.boot_max_us = jail->orders.boot_max_us,
		.memory_mib = (uint32_t)(l->memory_bytes / MIB),
		.pids = l->pids,
		.open_files = l->open_files,
	};
	int pair[2];

	(void)snprintf(orders.hostname, sizeof(orders.hostname), "%s", jail->spec->hostname);
	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	*ret_fd = pair[0];
	return fd_write_all(pair[1], &orders, sizeof(orders));
}

/* Moves the fds to the numbers of enum vmm_fd: first all out of the way, then each to its place. */
static int sort_fds(struct jail *jail, struct err *err)
{
	int fds[VMM_FD_GROUPS + CGROUP_TREES_MAX + SHOWN_MAX + EROFS_BASES_MAX] = {
		[VMM_FD_STATUS] = jail->status_fd,
		[VMM_FD_LISTEN] = order_fds[VM_ORDER_LISTEN],
		[VMM_FD_CONTROL] = order_fds[VM_ORDER_CONTROL],
		[VMM_FD_RAM] = order_fds[VM_ORDER_RAM],
		[VMM_FD_KERNEL] = order_fds[VM_ORDER_KERNEL],
		[VMM_FD_INITRD] = order_fds[VM_ORDER_INITRD],
		[VMM_FD_TEMPLATE] = order_fds[VM_ORDER_TEMPLATE],
		[VMM_FD_FITTINGS] = order_fds[VM_ORDER_FITTINGS],
		[VMM_FD_SCRATCH] = order_fds[VM_ORDER_SCRATCH],
	};
	const int first_shown = VMM_FD_GROUPS + (int)jail->n_user_fds;
	const int n = first_shown + (int)n_disks;
	int r = write_orders(jail, &fds[VMM_FD_ORDERS]);

	for (size_t i = 0; i < jail->n_user_fds; i++)
		fds[VMM_FD_GROUPS + i] = jail->user_fds[i];
	memcpy(fds + first_shown, disk_fds, n_disks * sizeof(int));
	fds[0] = fds[1] = fds[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; r == 0 && i < n; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_HIGH);
		r = fds[i] < 0 ? -errno : 0;
	}
	order_fds[VM_ORDER_VMM] = fcntl(order_fds[VM_ORDER_VMM], F_DUPFD_CLOEXEC, FIRST_HIGH);
	for (int i = 0; r == 0 && i < n; i++)
		r = dup2(fds[i], i) < 0 ? -errno : 0;
	jail->status_fd = fds[VMM_FD_STATUS]; /* for what may still fail */
	if (r == 0 &&
	    (order_fds[VM_ORDER_VMM] < 0 || close_range((unsigned)n, ~0U, CLOSE_RANGE_CLOEXEC) < 0))
		r = -errno;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot sort the fds") : 0;
}

/* Drops all: QEMU's files are open already, or anybody may open them. */
static int drop_caps(struct jail *jail, struct err *err)
{
	(void)jail;
	return jail_keep_caps(0, /* inheritable= */ 0, err);
}

static int exec_vmm(struct jail *jail, struct err *err)
{
	char *const argv[] = {unconst("cloche-vmm"), NULL}, *const env[] = {NULL};

	(void)jail;
	slice_shorten();
	(void)execveat(order_fds[VM_ORDER_VMM], "", argv, env, AT_EMPTY_PATH);
	return err_set(err, ERR_INTERNAL, errno, "execveat");
}

static const struct jail_step steps[] = {
	{"oom-score", jail_set_oom_score},
	{"orders", await_orders},
	{"session", jail_leave_session},
	{"cgroup-namespace", jail_unshare_cgroup}, /* after the groups were joined */
	{"staging", jail_mount_staging},           /* needs the host root's eyes */
	{"identity", jail_become_root}, /* from here on the host's files are a stranger's */
	{"root", mount_root},
	{"proc", mount_proc},  /* while the host's /proc is in sight: the kernel asks for it */
	{"pivot", jail_pivot}, /* from here on no host path has a name */
	{"rlimits", jail_set_rlimits},
	{"keyring", jail_leave_keyring},
	{"fds", sort_fds},
	{"read-only", seal_root},
	{"caps", drop_caps},           /* sets no_new_privs, which the filter needs */
	{"seccomp", jail_load_filter}, /* last: it forbids what the steps above did */
	{"exec", exec_vmm},
};

void vm_child_run(struct jail *jail)
{
	jail_run_steps(jail, "vm", steps, ARRAY_SIZE(steps));
}
