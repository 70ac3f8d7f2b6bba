// SPDX-License-Identifier: Apache-2.0
/* The first process of a bare guest, until it is the agent. */
#include "bare.h"

#include "base/auto.h"
#include "base/fd.h"
#include "engine/jail/jail_child.h"
#include "engine/linux/syscalls.h"

#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define STAGE "/tmp" /* in its own mount namespace */

static int await_go(const struct bare_child *c)
{
	char byte;

	return read(c->go_fd, &byte, 1) == 1 ? 0 : -1;
}

static int leave_session(const struct bare_child *c)
{
	(void)c;
	return setsid() < 0 ? -1 : 0;
}

static int mount_stage(const struct bare_child *c)
{
	static const char *const dirs[] = {"root", "root-work", "usr", "usr-work", "r"};

	(void)c;
	(void)umask(022);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", STAGE, "tmpfs", 0, "mode=0755") < 0 || chdir(STAGE) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return -1;
	return 0;
}

/* The template by its path: the fd is of a mount in the broker's namespace, which an overlay here
 * does not take. */
static int mount_root(const struct bare_child *c)
{
	char link[32], template[PATH_MAX] = "", options[2 * PATH_MAX];

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", c->template_fd);
	if (readlink(link, template, sizeof(template) - 1) < 0)
		return -1;
	(void)snprintf(options, sizeof(options), "lowerdir=%s/root,upperdir=root,workdir=root-work",
	               template);
	if (mount("overlay", "r", "overlay", 0, options) < 0)
		return -1;
	(void)snprintf(options, sizeof(options),
	               "lowerdir=%s/usr:/usr,upperdir=usr,workdir=usr-work", template);
	if (mount("overlay", "r/usr", "overlay", 0, options) < 0 ||
	    mount("proc", "r/proc", "proc", 0, NULL) < 0 ||
	    mount("/sys", "r/sys", NULL, MS_BIND | MS_REC, NULL) < 0 ||
	    mount("/dev", "r/dev", NULL, MS_BIND | MS_REC, NULL) < 0 ||
	    mount("tmpfs", "r/dev/shm", "tmpfs", 0, NULL) < 0)
		return -1;
	return 0;
}

static int enter_root(const struct bare_child *c)
{
	(void)c;
	/* pivot_root() and sethostname() are refused to the broker and its children. */
	return chdir("r") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
	                       chdir("/") < 0
	               ? -1
	               : 0;
}

static int give_names(const struct bare_child *c)
{
	struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &loopback) < 0)
		return -1;
	return fd_write_file(AT_FDCWD, "/proc/sys/kernel/hostname", c->spec->hostname) < 0 ? -1 : 0;
}

static int sort_fds(const struct bare_child *c)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			return -1;
	if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return -1;
	return fcntl(c->listen_fd, F_SETFD, 0) < 0 || fcntl(c->ready_fd, F_SETFD, 0) < 0 ? -1 : 0;
}

static int exec_agent(const struct bare_child *c)
{
	char listen[40], ready[40], nofile[40], caps[48];
	char *const argv[] = {unconst("cloche-agent"), NULL};
	char *const env[] = {listen, ready, nofile, caps, NULL};

	(void)snprintf(listen, sizeof(listen), "CLOCHE_LISTEN_FD=%d", c->listen_fd);
	(void)snprintf(ready, sizeof(ready), "CLOCHE_READY_FD=%d", c->ready_fd);
	(void)snprintf(nofile, sizeof(nofile), "CLOCHE_NOFILE=%u", c->spec->limits.open_files);
	(void)snprintf(caps, sizeof(caps), "CLOCHE_CAPS_ROOT=%llx",
	               (unsigned long long)jail_caps_of_root());
	return execveat(c->agent_fd, "", argv, env, AT_EMPTY_PATH);
}

static const struct {
	const char *name;
	int (*run)(const struct bare_child *c);
} steps[] = {
	{"go", await_go},     {"session", leave_session}, {"stage", mount_stage},
	{"root", mount_root}, {"pivot", enter_root},      {"names", give_names},
	{"fds", sort_fds},    {"exec", exec_agent},
};

void bare_child_run(const struct bare_child *c)
{
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		if (steps[i].run(c) < 0) {
			(void)err_set(&err, ERR_INTERNAL, errno, "bare step '%s'", steps[i].name);
			break;
		}
	(void)!fd_write_all(c->ready_fd, &err, sizeof(err));
	_exit(1);
}
