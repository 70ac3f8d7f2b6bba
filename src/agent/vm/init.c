// SPDX-License-Identifier: Apache-2.0
/*
 * Steps in order, each of which needs the ones before. What fails is told over the port once that
 * is open, and on the console in any case.
 *
 * Root of the sandbox gets the capabilities that SETUP names, a /proc/sys and /sys that it cannot
 * write to, and a /dev of seven nodes. So what attacks the machine's devices has to pass the
 * guest's kernel first.
 */
#include "agent/vm/init.h"

#include "agent/vm/netif.h"
#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "proto/port.h"

#include <fcntl.h>
#include <linux/module.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define TRIES       500 /* for a device to appear, TRY_US apart */
#define TRY_US      10000
#define GROUP       "/cgroup/user"
#define MODULES_DIR "/modules"
#define MODULES_MAX 64
#define NAME_SIZE   64
#define SHOWN       "/root/shown"
#define PTS_OPTIONS "newinstance,ptmxmode=0666,mode=0620,gid=5,max=256"

static int fail(struct err *err, const char *what)
{
	return err_set(err, ERR_INTERNAL, errno, "%s", what);
}

static int mount_first(struct settings *s, struct err *err)
{
	const unsigned long flags = MS_NOSUID | MS_NOEXEC | MS_NODEV;

	(void)s;
	if (mount("proc", "/proc", "proc", flags, NULL) < 0 ||
	    mount("sysfs", "/sys", "sysfs", flags, NULL) < 0 ||
	    mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, NULL) < 0 ||
	    mount("cgroup2", "/cgroup", "cgroup2", flags, NULL) < 0)
		return fail(err, "cannot mount proc, sys, dev and cgroup");
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int load_module(int dir_fd, const char *name)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
		return -errno;
	(void)unlinkat(dir_fd, name, 0); /* the first root is memory */
	return 0;
}

/* By their names, which begin with a number. */
static int load_modules(struct settings *s, struct err *err)
{
	auto_fd int fd = open(MODULES_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char names[MODULES_MAX][NAME_SIZE];
	struct dir_reader dir;
	const char *name;
	size_t n = 0;

	(void)s;
	if (fd < 0 || dir_begin(&dir, fd) < 0)
		return fail(err, "cannot list " MODULES_DIR);
	while (n < MODULES_MAX && (name = dir_next(&dir)))
		(void)snprintf(names[n++], NAME_SIZE, "%.*s", NAME_SIZE - 1, name);
	if (dir.error < 0)
		return err_set(err, ERR_INTERNAL, -dir.error, "cannot list " MODULES_DIR);
	qsort(names, n, NAME_SIZE, compare);
	for (size_t i = 0; i < n; i++) {
		int r = load_module(fd, names[i]);

		if (r < 0)
			return err_set(err, ERR_INTERNAL, -r, "cannot load the module '%s'",
			               names[i]);
	}
	return 0;
}

/* The entry of a directory in /sys whose file says the word; "" if there is none. */
static void find_by_word(const char *dir, const char *file, const char *word, char ret[NAME_SIZE])
{
	auto_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dir_reader names;
	const char *name;

	ret[0] = '\0';
	if (fd < 0 || dir_begin(&names, fd) < 0)
		return;
	while ((name = dir_next(&names))) {
		char path[2 * NAME_SIZE], text[NAME_SIZE];

		(void)snprintf(path, sizeof(path), "%.*s/%s", NAME_SIZE - 1, name, file);
		if (fd_read_file(fd, path, text, sizeof(text)) >= 0 && strcmp(text, word) == 0)
			(void)snprintf(ret, NAME_SIZE, "%.*s", NAME_SIZE - 1, name);
	}
}

static int open_port(struct settings *s, struct err *err)
{
	char name[NAME_SIZE], path[NAME_SIZE + 8];

	for (unsigned i = 0; i < TRIES; i++) {
		find_by_word("/sys/class/virtio-ports", "name", PORT_NAME, name);
		(void)snprintf(path, sizeof(path), "/dev/%s", name);
		if (name[0])
			s->port_fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (s->port_fd >= 0)
			return 0;
		(void)usleep(TRY_US);
	}
	return fail(err, "there is no port '" PORT_NAME "'");
}

/* "cloche.x=" and a number, from the kernel's command line; 0 if it is not there. */
static size_t read_option(const char *option, size_t most)
{
	char text[4096], word[NAME_SIZE];
	const char *at;

	if (fd_read_file(AT_FDCWD, "/proc/cmdline", text, sizeof(text)) < 0)
		return 0;
	(void)snprintf(word, sizeof(word), " %s", option);
	at = strstr(text, word);
	return at ? MIN(strtoul(at + strlen(word), NULL, 10), most) : 0;
}

/* 1: mounted, 0: there is no such disk. */
static int mount_disk(const char *serial, const char *type, unsigned long flags,
                      const char *options, struct err *err)
{
	char name[NAME_SIZE], path[NAME_SIZE + 8], place[NAME_SIZE];

	find_by_word("/sys/block", "serial", serial, name);
	if (!name[0])
		return 0;
	(void)snprintf(path, sizeof(path), "/dev/%s", name);
	(void)snprintf(place, sizeof(place), "/disk/%s", serial);
	if (mkdir(place, 0755) < 0 || mount(path, place, type, flags, options) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount the %s", serial);
	return 1;
}

static int await_disk(const char *serial, const char *type, unsigned long flags,
                      const char *options, struct err *err)
{
	for (unsigned i = 0; i < TRIES; i++) {
		int r = mount_disk(serial, type, flags, options, err);

		if (r != 0)
			return r;
		(void)usleep(TRY_US);
	}
	return err_set(err, ERR_INTERNAL, ENODEV, "there is no disk '%s'", serial);
}

/* The mount options that name the disks with the template's bases. */
static int name_bases(char *options, size_t size, struct err *err)
{
	const size_t n = read_option(PORT_BASES_OPTION, PORT_BASES_MAX);
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		char serial[32], name[NAME_SIZE] = "";

		(void)snprintf(serial, sizeof(serial), PORT_BASE "%zu", i);
		for (unsigned k = 0; k < TRIES; k++) {
			find_by_word("/sys/block", "serial", serial, name);
			if (name[0])
				break;
			(void)usleep(TRY_US);
		}
		if (!name[0])
			return err_set(err, ERR_INTERNAL, ENODEV, "there is no disk '%s'", serial);
		len += (size_t)snprintf(options + len, size - len, "%sdevice=/dev/%s",
		                        i > 0 ? "," : "", name);
		if (len >= size)
			return err_set(err, ERR_INTERNAL, E2BIG, "the disks have long names");
	}
	return 0;
}

static int mount_disks(struct settings *s, struct err *err)
{
	const unsigned long image = MS_RDONLY | MS_NODEV | MS_NOSUID;
	char bases[PORT_BASES_MAX * (NAME_SIZE + 16)] = "";
	int r = name_bases(bases, sizeof(bases), err);

	(void)s;
	if (r < 0)
		return r;
	r = await_disk(PORT_TEMPLATE, "erofs", image, bases, err);
	if (r > 0)
		r = await_disk(PORT_FITTINGS, "erofs", image, NULL, err);
	if (r > 0)
		r = await_disk(PORT_SCRATCH, "ext4", MS_NODEV | MS_NOSUID | MS_NOATIME,
		               "discard,noinit_itable", err);
	return r < 0 ? r : 0;
}

static int mount_root(struct settings *s, struct err *err)
{
	static const char options[] = "lowerdir=/disk/" PORT_FITTINGS ":/disk/" PORT_TEMPLATE
				      ",upperdir=/disk/" PORT_SCRATCH "/upper"
				      ",workdir=/disk/" PORT_SCRATCH "/work,redirect_dir=on";

	(void)s;
	/* A scratch disk of a sandbox that was stopped has both. */
	if ((mkdir("/disk/" PORT_SCRATCH "/upper", 0755) < 0 && errno != EEXIST) ||
	    (mkdir("/disk/" PORT_SCRATCH "/work", 0755) < 0 && errno != EEXIST))
		return fail(err, "cannot make the layer's directories");
	if (mount("overlay", "/root", "overlay", MS_NODEV | MS_NOSUID, options) < 0)
		return fail(err, "cannot mount the root");
	return 0;
}

static int mount_over(const char *layer, const char *to, struct err *err)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
	char options[128];

	(void)snprintf(options, sizeof(options),
	               "redirect_dir=follow,lowerdir=%s/disk/" PORT_FITTINGS
	               ":/disk/" PORT_TEMPLATE,
	               layer);
	if (mkdir(to, 0755) < 0 || mount("overlay", to, "overlay", flags, options) < 0)
		return fail(err, "cannot mount a snapshot's root");
	return 0;
}

/* As engine/jail/rootfs.c does: SHOWN/N is its root, SHOWN/N.root what it has written. Its disk is
 * somebody else's, and is mounted to be written to, since that is how its journal is read. */
static int mount_shot(size_t i, struct err *err)
{
	const unsigned long flags = MS_NODEV | MS_NOSUID | MS_NOEXEC;
	char serial[32], upper[48], layer[56], root[40], written[48];
	struct stat st;
	int r;

	(void)snprintf(serial, sizeof(serial), PORT_SHOWN "%zu", i);
	(void)snprintf(upper, sizeof(upper), "/disk/%s/upper", serial);
	(void)snprintf(layer, sizeof(layer), "%s:", upper);
	(void)snprintf(root, sizeof(root), SHOWN "/%zu", i);
	(void)snprintf(written, sizeof(written), "%s.root", root);
	r = await_disk(serial, "ext4", flags | MS_NOATIME, "errors=remount-ro", err);
	if (r < 0)
		return r;
	if (lstat(upper, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(err, ERR_INTERNAL, ENOTDIR, "a snapshot has no files");
	r = mount_over(layer, root, err);
	if (r == 0 &&
	    (mkdir(written, 0755) < 0 || mount(upper, written, NULL, MS_BIND, NULL) < 0 ||
	     mount(NULL, written, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL) < 0))
		r = fail(err, "cannot attach what a snapshot has written");
	return r;
}

/* Of a machine that is there to look into snapshots. Beside a single one: what it was written over.
 */
static int mount_shown(struct settings *s, struct err *err)
{
	const size_t n = read_option(PORT_SHOWN_OPTION, PORT_SHOWN_MAX);
	int r = 0;

	(void)s;
	if (n > 0 && mkdir(SHOWN, 0755) < 0)
		return fail(err, "cannot make a place for snapshots");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = mount_shot(i, err);
	return r == 0 && n == 1 ? mount_over("", SHOWN "/t", err) : r;
}

static int make_node(const char *path, unsigned minor_nr, unsigned major_nr)
{
	if (mknod(path, S_IFCHR | 0600, makedev(major_nr, minor_nr)) < 0 || chmod(path, 0666) < 0)
		return -errno;
	return 0;
}

static int mount_dev(struct settings *s, struct err *err)
{
	static const struct {
		const char *path;
		unsigned major_nr, minor_nr;
	} nodes[] = {
		{"/root/dev/null", 1, 3},   {"/root/dev/zero", 1, 5},    {"/root/dev/full", 1, 7},
		{"/root/dev/random", 1, 8}, {"/root/dev/urandom", 1, 9}, {"/root/dev/tty", 5, 0},
	};
	static const struct {
		const char *path, *target;
	} links[] = {
		{"/root/dev/fd", "/proc/self/fd"},       {"/root/dev/stdin", "/proc/self/fd/0"},
		{"/root/dev/stdout", "/proc/self/fd/1"}, {"/root/dev/stderr", "/proc/self/fd/2"},
		{"/root/dev/ptmx", "pts/ptmx"},
	};
	int r = 0;

	(void)s;
	if (mount("tmpfs", "/root/dev", "tmpfs", MS_NOSUID | MS_NOEXEC,
	          "mode=755,size=64k,nr_inodes=64") < 0)
		return fail(err, "cannot mount /dev");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(nodes); i++)
		r = make_node(nodes[i].path, nodes[i].minor_nr, nodes[i].major_nr);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(links); i++)
		r = symlink(links[i].target, links[i].path) < 0 ? -errno : 0;
	if (r < 0 || mkdir("/root/dev/pts", 0755) < 0 || mkdir("/root/dev/shm", 0755) < 0)
		return err_set(err, ERR_INTERNAL, r < 0 ? -r : errno, "cannot fill /dev");
	if (mount("devpts", "/root/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, PTS_OPTIONS) < 0 ||
	    mount("tmpfs", "/root/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV,
	          "mode=1777,size=50%,nr_inodes=65536") < 0 ||
	    mount(NULL, "/root/dev", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID, NULL) < 0)
		return fail(err, "cannot mount what is in /dev");
	return 0;
}

/* While the kernel's settings can still be written. */
static int set_kernel(struct settings *s, struct err *err)
{
	static const struct {
		const char *path, *value;
	} values[] = {
		{"/proc/sys/kernel/modules_disabled", "1"},
		{"/proc/sys/kernel/kexec_load_disabled", "1"},
		{"/proc/sys/kernel/sysrq", "0"},
		{"/proc/sys/kernel/dmesg_restrict", "1"},
		{"/proc/sys/kernel/kptr_restrict", "2"},
		{"/proc/sys/kernel/core_pattern", "core"},
		/* Looks at memory several times a second, for huge pages and for figures that
	         * nobody reads: a copy would begin with them. */
		{"/proc/sys/vm/compaction_proactiveness", "0"},
		{"/proc/sys/vm/stat_interval", "60"},
		{"/proc/sys/net/ipv6/conf/default/accept_dad", "0"}, /* it has no neighbours */
		{"/proc/sys/net/ipv6/conf/default/accept_ra", "0"},
		{"/proc/sys/net/ipv6/conf/eth0/accept_dad", "0"},
		{"/proc/sys/net/ipv6/conf/eth0/accept_ra", "0"},
	};

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		int r = fd_write_file(AT_FDCWD, values[i].path, values[i].value);

		if (r < 0 && r != -ENOENT)
			return err_set(err, ERR_INTERNAL, -r, "cannot set %s", values[i].path);
	}
	return 0;
}

static int make_group(struct settings *s, struct err *err)
{
	if (fd_write_file(AT_FDCWD, "/cgroup/cgroup.subtree_control", "+pids +memory +cpu") < 0 ||
	    mkdir(GROUP, 0755) < 0)
		return fail(err, "cannot make the group of execs");
	s->group_fd = open(GROUP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	s->cgroup_fds[0] = open(GROUP "/cgroup.procs", O_WRONLY | O_CLOEXEC);
	s->n_cgroup_fds = 1;
	return s->group_fd < 0 || s->cgroup_fds[0] < 0 ? fail(err, "cannot open the group") : 0;
}

static int mount_read_only(const char *path)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;

	if (mount(path, path, NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, NULL) < 0)
		return -errno;
	return 0;
}

/* Read-only, since a file's owner may write to it whatever capabilities he lacks. */
static int mount_proc_and_sys(struct settings *s, struct err *err)
{
	static const char *const parts[] = {"/root/proc/sys", "/root/proc/sysrq-trigger",
	                                    "/root/proc/irq", "/root/proc/bus"};
	const unsigned long flags = MS_NOSUID | MS_NOEXEC | MS_NODEV;

	(void)s;
	if (mount("proc", "/root/proc", "proc", flags, NULL) < 0 ||
	    mount("sysfs", "/root/sys", "sysfs", flags | MS_RDONLY, NULL) < 0)
		return fail(err, "cannot mount /proc and /sys");
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		int r = mount_read_only(parts[i]);

		if (r < 0 && r != -ENOENT)
			return err_set(err, ERR_INTERNAL, -r, "cannot protect %s", parts[i]);
	}
	return 0;
}

/* The first root cannot be pivoted from: the new one is moved over it. */
static int enter_root(struct settings *s, struct err *err)
{
	s->kernel_random_fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
	if (s->kernel_random_fd < 0)
		return fail(err, "cannot open the generator");
	if (chdir("/root") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
	    chdir("/") < 0)
		return fail(err, "cannot enter the root");
	return 0;
}

static int set_limits(struct settings *s, struct err *err)
{
	static const struct {
		__rlimit_resource_t what;
		rlim_t most;
	} limits[] = {
		{RLIMIT_CORE, 1},         {RLIMIT_MEMLOCK, 8 << 20}, {RLIMIT_MSGQUEUE, 819200},
		{RLIMIT_RTPRIO, 0},       {RLIMIT_NICE, 0},          {RLIMIT_SIGPENDING, 8192},
		{RLIMIT_NOFILE, 1 << 20}, /* the agent's own; SETUP has that of execs */
	};

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit limit = {limits[i].most, limits[i].most};

		if (setrlimit(limits[i].what, &limit) < 0)
			return fail(err, "cannot set a limit");
	}
	(void)umask(022);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return fail(err, "no_new_privs");
	return 0;
}

static int raise_lo(struct settings *s, struct err *err)
{
	int r = netif_up("lo");

	(void)s;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot bring lo up") : 0;
}

/* clang-format off */
static const struct {
	const char *name;
	int (*run)(struct settings *s, struct err *err);
} steps[] = {
	{"first mounts", mount_first},
	{"modules",      load_modules},
	{"port",         open_port},      /* from here on failures are told to the host */
	{"disks",        mount_disks},
	{"root",         mount_root},
	{"shown",        mount_shown},
	{"dev",          mount_dev},
	{"kernel",       set_kernel},     /* modules are in: none comes after them */
	{"group",        make_group},
	{"proc and sys", mount_proc_and_sys},
	{"enter",        enter_root},     /* from here on the first root has no name */
	{"limits",       set_limits},
	{"lo",           raise_lo},
};
/* clang-format on */

int init_boot(struct settings *s, struct err *err)
{
	*s = (struct settings){.listen_fd = -1,
	                       .ready_fd = -1,
	                       .port_fd = -1,
	                       .group_fd = -1,
	                       .kernel_random_fd = -1,
	                       .root_caps = UINT64_MAX,
	                       .is_init = true,
	                       .is_vm = true};
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		if (steps[i].run(s, err) < 0)
			return err_prefix(err, "init step '%s'", steps[i].name);
	return 0;
}

static void tell_failure(int fd, const char *text)
{
	auto_call(buf_done) struct buf out = BUF_INIT(PORT_HEAD_SIZE + PORT_TEXT_MAX);
	struct pollfd poller = {.fd = fd, .events = POLLOUT};

	if (port_put_control(&out, PORT_FAILED, text, strlen(text)) == 0 &&
	    poll(&poller, 1, 1000) > 0)
		(void)!write(fd, out.data, out.len);
}

void init_power_off(const struct settings *s, const char *text)
{
	if (text && s->port_fd >= 0)
		tell_failure(s->port_fd, text);
	(void)kill(-1, SIGKILL);
	sync();
	(void)reboot(RB_POWER_OFF);
	(void)reboot(RB_AUTOBOOT); /* a machine that cannot be switched off */
	for (;;)
		(void)pause();
}
