// SPDX-License-Identifier: Apache-2.0
/*
 * The probe in QEMU's place: a vm's guest has taken its QEMU over, and tries what it now can. It is
 * started as QEMU is, by cloche-vmm, with QEMU's words, fds and no environment, and has no line to
 * anybody but what QEMU has: so it writes its lines over the sandbox's own disk, the one file that
 * it may write, where the test reads them. E47 of the abuse catalogue.
 */
#include "probe.h"
#include "vmm/orders.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static void tell_name(const char *name, void *arg)
{
	tell_case(arg, name, 0);
}

/* What there is to see: the whole root but for libraries and firmware, and every process. */
static void look_around(void)
{
	static const struct {
		const char *path;
		char name[8];
	} places[] = {{"/", "root"}, {"/dev", "dev"}, {"/proc", "proc"}, {"/usr/bin", "bin"}};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		(void)each_entry(open(places[i].path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		                 tell_name, (void *)(uintptr_t)places[i].name);
}

/* Where a file that it was given to read could be opened again, for more. */
static void reopen(void)
{
	static const struct {
		const char *name;
		int fd;
	} files[] = {
		{"kernel", VMM_FD_KERNEL},
		{"initrd", VMM_FD_INITRD},
		{"template", VMM_FD_TEMPLATE},
		{"fittings", VMM_FD_FITTINGS},
	};
	char path[64];
	int again;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", files[i].fd);
		again = open(path, O_RDWR | O_CLOEXEC); /* a file in memory is let, and sealed */
		tell_case("reopen", files[i].name, again < 0 ? -1 : write(again, "x", 1));
		tell_case("write", files[i].name, write(files[i].fd, "x", 1));
		tell_case("chmod", files[i].name, fchmod(files[i].fd, 0666));
	}
}

/* Made and removed again: the control makes them too. */
static void make_files(void)
{
	static const char *const dirs[] = {"/", "/dev", "/proc", "/usr", "/usr/lib", "/usr/share"};
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		(void)snprintf(path, sizeof(path), "%s/cloche-probe", dirs[i]);
		tell_case("mkdir", dirs[i], mkdir(path, 0700));
		(void)rmdir(path);
	}
}

static void dial(const char *name, const char *address)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)inet_pton(AF_INET, address, &to.sin_addr);
	/* Sends nothing: where there is no route, this says so. */
	tell_case("route", name, connect(fd, (struct sockaddr *)&to, sizeof(to)));
	(void)close(fd);
}

static int run_breach(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	look_around();
	make_files();
	dial("public", "93.184.216.34");
	dial("private", "10.99.0.5");
	dial("metadata", "169.254.169.254");
	tell("kill_others", syscall(SYS_kill, -1, 0)); /* all but itself and the first */
	tell("shell", access("/bin/sh", X_OK));
	return 0;
}

const struct probe breach_probes[] = {
	{"breach", run_breach, ""},
	{NULL, NULL, NULL},
};

void probe_as_qemu(int (*run)(int argc, char **argv))
{
	static const char *const words[][6] = {
		{"breach"},
		{"namespaces"},
		{"mounts"},
		{"chroot"},
		{"keys"},
		{"doors"},
		{"sockets"},
		{"sched"},
		{"fds"},
		{"status"},
		{"read", "/etc/passwd", "/sys", "/proc/kcore", "/proc/sys", "/proc/1/environ"},
		{"write-open", "/dev/mem", "/dev/kmsg", "/dev/net/tun", "/usr/bin", "/proc/1/mem"},
	};

	if (dup2(VMM_FD_SCRATCH, STDOUT_FILENO) < 0 || ftruncate(STDOUT_FILENO, 0) < 0)
		_exit(3);
	reopen();
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		char *argv[ARRAY_SIZE(words[0]) + 2] = {NULL};
		int argc = 1;

		for (; argc <= (int)ARRAY_SIZE(words[0]) && words[i][argc - 1]; argc++)
			argv[argc] = (char *)(uintptr_t)words[i][argc - 1];
		(void)run(argc, argv);
	}
	tell("over", 0);
	(void)pause(); /* until who reads this is done */
}
