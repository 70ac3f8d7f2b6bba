// SPDX-License-Identifier: Apache-2.0
/*
 * An agent that does not last, for tests of how a vm ends: nothing that runs inside can bring its
 * kernel or its init down, so the tests bring somebody along who can. This program with the agent's
 * own behind it (and eight bytes that say how long that is) is a vm's init: it leaves a process
 * behind, with all rights, before it becomes the agent. That one waits for the file of its fate:
 * "panic", and it crashes the kernel; "init", and it writes over the agent's program, which dies of
 * it.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE "/frail" /* a /proc of its own: the agent moves on to another root */
#define FATE  PLACE "/1/root/home/user/fate"

static void crash_kernel(void)
{
	int fd = open(PLACE "/sysrq-trigger", O_WRONLY | O_CLOEXEC);

	(void)!write(fd, "c", 1);
}

static void end_init(void)
{
	static const char zeros[4096];
	FILE *maps = fopen(PLACE "/1/maps", "re");
	int fd = open(PLACE "/1/mem", O_RDWR | O_CLOEXEC);
	unsigned long from, to;
	char line[512], kind[8];

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %7s", &from, &to, kind) == 3 && kind[2] == 'x')
			for (; from < to; from += sizeof(zeros))
				(void)!pwrite(fd, zeros, sizeof(zeros), (off_t)from);
}

static void await_fate(void)
{
	(void)mkdir(PLACE, 0700);
	(void)mount("proc", PLACE, "proc", 0, NULL);
	for (;; (void)usleep(50000)) {
		char word[8] = "";
		int fd = open(FATE, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			continue;
		(void)!read(fd, word, sizeof(word) - 1);
		(void)close(fd);
		if (!strcmp(word, "panic"))
			crash_kernel();
		if (!strcmp(word, "init"))
			end_init();
	}
}

static int become_agent(char **argv, char **env)
{
	int fd = open("/init", O_RDONLY | O_CLOEXEC), to = memfd_create("agent", MFD_CLOEXEC);
	uint64_t size = 0;
	char data[65536];
	ssize_t n;

	(void)lseek(fd, -(off_t)sizeof(size), SEEK_END);
	(void)!read(fd, &size, sizeof(size));
	(void)lseek(fd, -(off_t)(sizeof(size) + size), SEEK_END);
	while ((n = read(fd, data, sizeof(data))) > 0)
		(void)!write(to, data, (size_t)n);
	(void)fexecve(to, argv, env);
	return 1;
}

int main(int argc, char **argv, char **env)
{
	(void)argc;
	if (fork() == 0)
		await_fate();
	return become_agent(argv, env);
}
