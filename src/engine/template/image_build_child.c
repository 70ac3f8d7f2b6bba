// SPDX-License-Identifier: Apache-2.0
/*
 * The same tree gives the same bytes: the filesystem's id is fixed, no file's time is later than
 * the given epoch, and all extended attributes are left out. They could only be overlayfs' own
 * marks, capabilities, which have no effect inside, and users' attributes, which no template needs.
 *
 * Every kernel reads lz4, and it is the fastest to read. It packs a root with Python and git from
 * 292 MB to 176 MB in a second; lz4hc with larger blocks packs it to 153 MB in twelve seconds,
 * which is for images that are made once and kept. No compression would save a second, but take
 * nearly twice the disk.
 *
 * A root over an image becomes an image with bases (erofs_write.h): mkfs.erofs packs only what was
 * written. It has no whiteouts, and each of its files is in its own inodes, so nothing that starts
 * from it can tell the difference.
 */
#include "engine/template/image_build_child.h"

#include "base/fd.h"
#include "engine/layer/own_tmpfs.h"
#include "engine/template/image_build_names.h"
#include "engine/template/image_build_share.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PROGRAM      "/usr/bin/mkfs.erofs"
#define CAPS         BIT64(CAP_DAC_READ_SEARCH)
#define ROOT_OPTIONS "mode=755,size=64m,nr_inodes=256"
#define CPU_SECONDS  1200
#define NICENESS     10
#define UUID         "-Uc10c4e00-0000-4000-8000-000000000000"
#define UPPER        "upper" /* where the files are that the sandbox has written */

/* clang-format off */
/* Files of one machine, one run or one person, and files that the fittings bring anyway. An image
 * that is only a step on the way to another one is without the first ones of these. */
#define LEFT_OUT_ALWAYS 4
static const char *const left_out[] = {
	"^(dev|proc|sys|run)/.",
	"^etc/(hostname|hosts|machine-id|resolv\\.conf)$",
	"^opt/cloche(/|$)",
	"^usr/local/bin/sudo$",
	"^(tmp|var/tmp)/.",
	"^var/lib/dbus/machine-id$",
	"^var/lib/systemd/random-seed$",
	"^etc/ssh/ssh_host_.*_key(\\.pub)?$",
	"^var/lib/apt/lists/.", "^var/cache/apt/.", "^var/cache/ldconfig/.", "^var/cache/debconf/.*-old$",
	"^var/log/.*(\\.log|\\.gz|\\.[0-9]|log/[bw]tmp|lastlog|faillog)$",
	"^var/lib/dpkg/.*-old$",
	"^(root|home/[^/]*)/\\.cache/.",
	"^(root|home/[^/]*)/\\.((bash|zsh|python|node_repl|psql|mysql|sqlite)_history|lesshst|viminfo)$",
	"^(root|home/[^/]*)/\\.(netrc|git-credentials|pypirc|pgpass|Xauthority)$",
	"^(root|home/[^/]*)/\\.(aws/credentials|docker/config\\.json|kube/config|config/gh/hosts\\.yml)$",
	"^(root|home/[^/]*)/\\.ssh/(id_[^./]*|authorized_keys|known_hosts.*)$",
};
/* clang-format on */

static struct image_build_orders orders;
static int mounts[IMAGE_BUILD_MOUNT_COUNT], words_fd, part_fds[IMAGE_FILES_MAX];

static int await_orders(struct jail *jail, struct err *err)
{
	int fds[FD_PASS_MAX];
	size_t n = 0;
	ssize_t r = fd_recv(jail->go_fd, &orders, sizeof(orders), fds, &n);

	if (r != sizeof(orders) || orders.n_parts > IMAGE_FILES_MAX ||
	    n != IMAGE_BUILD_MOUNT_COUNT + 1 + orders.n_parts)
		return err_set(err, ERR_INTERNAL, r < 0 ? (int)-r : EPIPE, "the broker went away");
	memcpy(mounts, fds, sizeof(mounts));
	words_fd = fds[IMAGE_BUILD_MOUNT_COUNT];
	memcpy(part_fds, fds + IMAGE_BUILD_MOUNT_COUNT + 1, orders.n_parts * sizeof(int));
	CPU_ZERO(&jail->cpus);
	if (sched_getaffinity(0, sizeof(jail->cpus), &jail->cpus) < 0)
		return err_set(err, ERR_INTERNAL, errno, "sched_getaffinity");
	return 0;
}

static int make_places(struct err *err)
{
	static const char *const dirs[] = {"r/tree", "r/out", "r/usr", "r/dev", "r/tmp"};
	static const char *const links[] = {"bin", "sbin", "lib", "lib64"};

	if (mkdir("r", 0700) < 0 ||
	    mount("tmpfs", "r", "tmpfs", MS_NOSUID | MS_NODEV, ROOT_OPTIONS) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount the root");
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", dirs[i]);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		char path[16], target[16];

		(void)snprintf(path, sizeof(path), "r/%s", links[i]);
		(void)snprintf(target, sizeof(target), "usr/%s", links[i]);
		if (symlink(target, path) < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
	}
	return 0;
}

static int attach(struct err *err)
{
	static const struct {
		const char *path;
		bool is_new;
	} places[] = {
		[IMAGE_BUILD_MOUNT_TEMPLATE] = {"t", true},
		[IMAGE_BUILD_MOUNT_BASE] = {"b", true},
		[IMAGE_BUILD_MOUNT_LAYER] = {"l", true},
		[IMAGE_BUILD_MOUNT_OUT] = {"r/out", false},
		[IMAGE_BUILD_MOUNT_PROGRAMS] = {"r/usr", false},
		[IMAGE_BUILD_MOUNT_OWN_TMPFS] = {"s", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if ((places[i].is_new && mkdir(places[i].path, 0700) < 0) ||
		    move_mount(mounts[i], "", AT_FDCWD, places[i].path, MOVE_MOUNT_F_EMPTY_PATH) <
		            0)
			return err_set(err, ERR_INTERNAL, errno, "cannot attach mount '%s'",
			               places[i].path);
		(void)close(take_fd(&mounts[i]));
	}
	if (mount("s/" OWN_TMPFS_DEV, "r/dev", NULL, MS_BIND, NULL) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount dev");
	return 0;
}

static int mount_tree(struct err *err)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_RDONLY;
	const char *root = orders.is_host   ? "userxattr,lowerdir=l/root:t/root"
	                   : orders.is_over ? "userxattr,lowerdir=l/over:b"
	                                    : "userxattr,lowerdir=l/root:b";
	const char *upper = orders.is_over ? "l/over" : "l/root";

	if (mount("overlay", "r/tree", "overlay", flags, root) < 0 ||
	    (orders.n_parts > 0 &&
	     (mkdir("r/" UPPER, 0755) < 0 || mount(upper, "r/" UPPER, NULL, MS_BIND, NULL) < 0)))
		return err_set(err, ERR_INTERNAL, errno, "cannot mount the tree");
	if (orders.is_host && mount("overlay", "r/tree/usr", "overlay", flags,
	                            "userxattr,lowerdir=l/usr:t/usr:b") < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount the tree's usr");
	return 0;
}

static int mount_root(struct jail *jail, struct err *err)
{
	int r = make_places(err);

	(void)jail;
	if (r == 0)
		r = attach(err);
	return r == 0 ? mount_tree(err) : r;
}

static int enter_tree(struct jail *jail, struct err *err)
{
	const char *path = orders.is_tree       ? "/tree/" IMAGE_BUILD_TREE
	                   : orders.n_parts > 0 ? "/" UPPER
	                                        : "/tree";
	auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	(void)jail;
	if (fd < 0 && orders.is_tree)
		return err_set(err, ERR_FILE_NOT_FOUND, errno,
		               "the sandbox has no directory /" IMAGE_BUILD_TREE " to seal");
	if (fd < 0 || fchdir(fd) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot enter the tree");
	return 0;
}

static int set_bounds(struct jail *jail, struct err *err)
{
	const struct rlimit file = {orders.bytes_max, orders.bytes_max};
	const struct rlimit cpu = {CPU_SECONDS, CPU_SECONDS};
	int r = jail_set_rlimits(jail, err);

	if (r == 0 && (setrlimit(RLIMIT_FSIZE, &file) < 0 || setrlimit(RLIMIT_CPU, &cpu) < 0))
		r = err_set(err, ERR_INTERNAL, errno, "setrlimit");
	(void)setpriority(PRIO_PROCESS, 0, NICENESS);
	(void)signal(SIGXFSZ, SIG_IGN); /* then it gets an error instead, and reports it */
	return r;
}

/* status_fd closes with the exec. */
static int sort_fds(struct jail *jail, struct err *err)
{
	auto_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)jail;
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(words_fd, STDOUT_FILENO) < 0 ||
	    dup2(words_fd, STDERR_FILENO) < 0 ||
	    close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot sort the fds");
	return 0;
}

/* Across an exec root keeps the capabilities of the bounding set. */
static int drop_caps(struct jail *jail, struct err *err)
{
	(void)jail;
	return jail_keep_caps(CAPS, /* inheritable= */ 0, err);
}

static size_t count_left_out(void)
{
	return orders.is_whole ? LEFT_OUT_ALWAYS : ARRAY_SIZE(left_out);
}

static int check_names(struct jail *jail, struct err *err)
{
	(void)jail;
	return image_build_check_names(left_out, count_left_out(), err);
}

static int exec_mkfs(struct jail *jail, struct err *err)
{
	char epoch[48], excludes[ARRAY_SIZE(left_out)][160];
	const char *argv[ARRAY_SIZE(left_out) + 16] = {"mkfs.erofs",
	                                               "--quiet",
	                                               "-d1",
	                                               "-x-1",
	                                               orders.is_small ? "-zlz4hc" : "-zlz4",
	                                               orders.is_small ? "-C65536" : "-C32768",
	                                               UUID,
	                                               "--preserve-mtime"};
	char *const env[] = {unconst("TMPDIR=/tmp"), epoch, NULL};
	size_t n = 8;

	(void)jail;
	/* The option -T would set every file to that time; this only lowers later times. */
	(void)snprintf(epoch, sizeof(epoch), "SOURCE_DATE_EPOCH=%" PRIu64, orders.epoch_s);
	for (size_t i = 0; i < count_left_out(); i++) {
		(void)snprintf(excludes[i], sizeof(excludes[i]), "--exclude-regex=%s", left_out[i]);
		argv[n++] = excludes[i];
	}
	argv[n++] = "/out/" IMAGE_BUILD_FILE;
	argv[n++] = ".";
	(void)execve(PROGRAM, unconst(argv), env);
	(void)err_set(err, ERR_UNSUPPORTED, errno, "cannot run mkfs.erofs");
	return err_hint(err, "install erofs-utils on the host");
}

static bool is_left_out(const char *path)
{
	static regex_t compiled[ARRAY_SIZE(left_out)];
	static size_t n;

	for (; n < count_left_out(); n++)
		if (regcomp(&compiled[n], left_out[n], REG_EXTENDED | REG_NOSUB) != 0)
			abort();
	for (size_t i = 0; i < n; i++)
		if (regexec(&compiled[i], path, 0, NULL, 0) == 0)
			return true;
	return false;
}

/* Runs mkfs.erofs on what was written, and ends as it does if it fails. */
static int pack_upper(struct jail *jail, struct err *err)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		(void)!exec_mkfs(jail, err);
		(void)!fd_write_all(jail->status_fd, err, sizeof(*err));
		_exit(1);
	}
	if (pid < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a child");
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(err, ERR_INTERNAL, errno, "waitpid");
	if (WIFSIGNALED(status)) {
		(void)signal(WTERMSIG(status), SIG_DFL);
		(void)raise(WTERMSIG(status));
	}
	if (status != 0)
		_exit(1);
	return 0;
}

/*
 * Makes an image that leaves the blocks of unchanged files where they are. If it has something that
 * such an image cannot have, an image of the whole tree is made instead.
 */
static int share_base(struct jail *jail, struct err *err)
{
	const struct image_build_share share = {
		.orders = &orders, .part_fds = part_fds, .is_left_out = is_left_out};
	int r;

	if (orders.n_parts == 0)
		return 0;
	r = pack_upper(jail, err);
	if (r < 0)
		return r;
	if (image_build_share(&share) == 0)
		_exit(0);
	if (unlink("/out/" IMAGE_BUILD_FILE) < 0 || chdir("/tree") < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot enter the tree");
	return 0;
}

static const struct jail_step steps[] = {
	{"session", jail_leave_session},
	{"orders", await_orders},
	{"cgroup-namespace", jail_unshare_cgroup}, /* after the group was joined */
	{"staging", jail_mount_staging},           /* needs the host root's eyes */
	{"identity", jail_become_root}, /* from here on the host's files are a stranger's */
	{"root", mount_root},
	{"pivot", jail_pivot}, /* from here on no host path has a name */
	{"tree", enter_tree},
	{"bounds", set_bounds},
	{"keyring", jail_leave_keyring},
	{"fds", sort_fds},
	{"caps", drop_caps},           /* sets no_new_privs, which the filter needs */
	{"seccomp", jail_load_filter}, /* it forbids what the steps above did */
	{"names", check_names},        /* the first look at what a sandbox wrote */
	{"share", share_base},
	{"exec", exec_mkfs},
};

void image_build_child_run(struct jail *jail)
{
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		if (steps[i].run(jail, &err) >= 0)
			continue;
		if (err.code == ERR_INTERNAL)
			err_prefix(&err, "seal step '%s'", steps[i].name);
		break;
	}
	(void)!fd_write_all(jail->status_fd, &err, sizeof(err));
	_exit(1);
}
