// SPDX-License-Identifier: Apache-2.0
/*
 * Attempts by way of files: what /proc, /sys and /dev give away or let be written, fds that leaked
 * in, sockets lying about, the lower layer that all sandboxes share. E01–E03, E15, E16, E18, E19,
 * E21, E23, E27 and E35 of the abuse catalogue.
 */
#include "probe.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Opens for writing and writes nothing: the open is where a read-only mount or an owner says no. */
static int run_write_open(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		int fd = open(argv[i], O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

		tell_case("write_open", argv[i], fd < 0 ? -1 : 0);
		if (fd >= 0)
			(void)close(fd);
	}
	return 0;
}

/* ret: how many bytes other than 0 could be read from the first 4096; a directory's entries count.
 */
static int run_read(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		char data[4096];
		long seen = 0;
		ssize_t n;
		int fd = open(argv[i], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

		if (fd < 0) {
			tell_case("read", argv[i], -1);
			continue;
		}
		n = read(fd, data, sizeof(data));
		if (n < 0 && errno == EISDIR) {
			tell_case("read", argv[i], each_entry(fd, NULL, NULL));
			continue;
		}
		for (ssize_t k = 0; k < n; k++)
			seen += data[k] != 0;
		tell_case("read", argv[i], n < 0 ? -1 : seen);
		(void)close(fd);
	}
	return 0;
}

static void try_below(const char *base, const char *path)
{
	char full[4096];
	int fd;

	(void)snprintf(full, sizeof(full), "%s%s", base, path);
	fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		tell_text("found", full);
		(void)close(fd);
	}
}

struct walk {
	const char *path;
	long links;
};

static void walk_process(const char *name, void *arg)
{
	static const char *const behind[] = {"root", "cwd", "root/../..", "cwd/../../../.."};
	struct walk *walk = arg;
	char base[512];

	if (strcmp(name, "self") && (name[0] < '0' || name[0] > '9'))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(behind); i++, walk->links++) {
		(void)snprintf(base, sizeof(base), "/proc/%s/%s", name, behind[i]);
		try_below(base, walk->path);
	}
	for (int fd = 0; fd < 64; fd++, walk->links++) {
		(void)snprintf(base, sizeof(base), "/proc/%s/fd/%d", name, fd);
		try_below(base, walk->path);
		(void)snprintf(base, sizeof(base), "/proc/%s/fd/%d/../../../..", name, fd);
		try_below(base, walk->path);
	}
}

/* Looks for a host's path behind every magic link in sight. Prints what it found, then the count of
 * links that were walked. */
static int run_walk(int argc, char **argv)
{
	struct walk walk = {.path = argc > 0 ? argv[0] : ""};

	if (each_entry(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), walk_process, &walk) < 0)
		return 2;
	tell("walked", walk.links);
	return 0;
}

static void tell_fd(const char *name, void *arg)
{
	char path[512], target[512];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%s", name);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0 || strtol(name, NULL, 10) == *(const int *)arg)
		return;
	target[n] = '\0';
	(void)snprintf(path, sizeof(path), "fd:%s", name);
	tell_text(path, target);
}

static int run_fds(int argc, char **argv)
{
	int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)argc;
	(void)argv;
	return each_entry(fd, tell_fd, &fd) < 0 ? 2 : 0;
}

struct find {
	const char *dir;
	mode_t kind;
	int depth;
};

/* On all mounts but /proc, /sys and /usr: what lies there is the kernel's or the template's. */
static void find_entry(const char *name, void *arg)
{
	const struct find *find = arg;
	struct find below;
	char path[1024];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", strcmp(find->dir, "/") ? find->dir : "", name) >=
	    (int)sizeof(path))
		return;
	if (lstat(path, &st) < 0)
		return;
	if ((st.st_mode & S_IFMT) == find->kind)
		tell_text("found", path);
	if (!S_ISDIR(st.st_mode) || find->depth > 12 || !strcmp(path, "/proc") ||
	    !strcmp(path, "/sys") || !strcmp(path, "/usr"))
		return;
	below = (struct find){path, find->kind, find->depth + 1};
	(void)each_entry(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), find_entry,
	                 &below);
}

static int run_find(int argc, char **argv)
{
	static const struct {
		const char *name;
		mode_t kind;
	} kinds[] = {
		{"socket", S_IFSOCK}, {"block", S_IFBLK}, {"char", S_IFCHR}, {"fifo", S_IFIFO}};

	if (argc < 2)
		return 2;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(argv[0], kinds[i].name)) {
			struct find find = {argv[1], kinds[i].kind, 0};

			(void)each_entry(open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			                 find_entry, &find);
		}
	tell("searched", 0);
	return 0;
}

static int run_mknod(int argc, char **argv)
{
	static const struct {
		const char *name;
		mode_t mode;
		unsigned major, minor;
	} nodes[] = {
		{"char", S_IFCHR | 0600, 1, 3},
		{"block", S_IFBLK | 0600, 7, 0},
		{"whiteout", S_IFCHR, 0, 0},
		{"fifo", S_IFIFO | 0600, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		char path[4096];

		(void)snprintf(path, sizeof(path), "%s/probe-node", argc > 0 ? argv[0] : "/tmp");
		(void)unlink(path);
		tell_case("mknodat", nodes[i].name,
		          syscall(SYS_mknodat, AT_FDCWD, path, nodes[i].mode,
		                  (unsigned long)makedev(nodes[i].major, nodes[i].minor)));
		(void)unlink(path);
	}
	return 0;
}

/* Writes through /proc/self/mem pass by the protection of a mapping; ret: bytes, of a copy. */
static long write_own_memory(void *at)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	long n = syscall(SYS_pwrite64, fd, "tamper", 6UL, (long)(uintptr_t)at);

	(void)close(fd);
	return n;
}

/* A file without a name, linked over one of the lower layer. */
static long link_nameless(const char *over)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char link[64];
	long r;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	r = syscall(SYS_linkat, AT_FDCWD, link, AT_FDCWD, over, AT_SYMLINK_FOLLOW);
	(void)close(fd);
	return r;
}

/* FILE is one of the lower layer. Each change may fail or land in the sandbox's own copy. */
static int run_tamper(int argc, char **argv)
{
	struct file_clone_range clone = {0};
	_Alignas(8) char room[sizeof(struct file_dedupe_range) +
	                      sizeof(struct file_dedupe_range_info)] = {0};
	struct file_dedupe_range *dedupe = (struct file_dedupe_range *)room;
	int ro, rw, flags = 0x10 /* immutable */;
	char scratch[64] = "/tmp/probe-tamper";
	void *map;

	if (argc < 1)
		return 2;
	ro = open(argv[0], O_RDONLY | O_CLOEXEC);
	tell("open_ro", ro < 0 ? -1 : 0);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0);
	tell("map_shared_of_ro", map == MAP_FAILED ? -1 : 0);
	tell("private_map_by_proc_mem",
	     write_own_memory(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, ro, 0)));
	tell("nameless_link", link_nameless(argv[0]));
	tell("fallocate_ro", syscall(SYS_fallocate, ro, 0, 0L, 4096L));
	tell("ftruncate_ro", syscall(SYS_ftruncate, ro, 0L));
	rw = open(scratch, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	clone.src_fd = rw;
	tell("ficlone", ioctl(ro, FICLONE, rw));
	tell("ficlonerange", ioctl(ro, FICLONERANGE, &clone));
	dedupe->src_length = 4096;
	dedupe->dest_count = 1;
	dedupe->info[0].dest_fd = ro;
	tell("fideduperange", ioctl(rw, FIDEDUPERANGE, dedupe));
	tell("setflags", ioctl(ro, FS_IOC_SETFLAGS, &flags));
	tell("setflags_high", syscall(SYS_ioctl, ro, 0x100000000UL | FS_IOC_SETFLAGS, &flags));
	tell("setxattr", syscall(SYS_setxattr, argv[0], "user.probe", "x", 1UL, 0));
	tell("xattr_trusted",
	     syscall(SYS_setxattr, scratch, "trusted.overlay.opaque", "y", 1UL, 0));
	tell("xattr_overlay",
	     syscall(SYS_setxattr, scratch, "user.overlay.redirect", "/etc", 4UL, 0));
	tell("xattr_capability",
	     syscall(SYS_setxattr, scratch, "security.capability", "x", 1UL, 0));
	tell("open_rw", open(argv[0], O_RDWR | O_CLOEXEC) < 0 ? -1 : 0);
	tell("truncate", syscall(SYS_truncate, argv[0], 0L));
	tell("utimensat", syscall(SYS_utimensat, AT_FDCWD, argv[0], NULL, 0));
	tell("chmod", syscall(SYS_fchmodat, AT_FDCWD, argv[0], 0777));
	tell("unlink", syscall(SYS_unlinkat, AT_FDCWD, argv[0], 0));
	(void)unlink(scratch);
	return 0;
}

/* Swaps a directory and a symlink for some seconds, as fast as it can; ret: how often. */
static int run_swap(int argc, char **argv)
{
	time_t end = time(NULL) + word_number(argc, argv, 2, 2);
	long n = 0;

	if (argc < 2)
		return 2;
	for (; time(NULL) < end; n++)
		if (syscall(SYS_renameat2, AT_FDCWD, argv[0], AT_FDCWD, argv[1],
		            2U /* EXCHANGE */) < 0)
			break;
	tell("swapped", n);
	return 0;
}

/* clang-format off */
const struct probe file_probes[] = {
	{"write-open", run_write_open, "PATH..."},
	{"read",       run_read,       "PATH..."},
	{"walk",       run_walk,       "/PATH-OF-THE-HOST"},
	{"fds",        run_fds,        ""},
	{"find",       run_find,       "socket|block|char|fifo DIR"},
	{"mknod",      run_mknod,      "[DIR]"},
	{"tamper",     run_tamper,     "FILE (throw-away where it may succeed)"},
	{"swap",       run_swap,       "DIR LINK [SECONDS]"},
	{NULL, NULL, NULL},
};
/* clang-format on */
