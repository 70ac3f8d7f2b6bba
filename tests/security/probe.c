// SPDX-License-Identifier: Apache-2.0
/*
 * The payload of the security tests: one static program that tries, from inside a sandbox, what
 * must not be possible, and says exactly what the kernel answered. It judges nothing: the tests
 * compare its lines with what they expect, and with a control run where the wall is absent.
 *
 * It must run anywhere, so it is static, takes no library beyond libc, and makes the calls in
 * question by number, so that no wrapper checks arguments or falls back on its own.
 *
 * Nothing here harms a machine where every attempt succeeds: what would (a reboot, a kernel image,
 * a module) is called with arguments that the kernel itself refuses, with another errno than a
 * wall.
 */
#include "probe.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void put_line(const char *line, int len)
{
	if (len > 0 && write(STDOUT_FILENO, line, (size_t)len) < 0)
		_exit(3);
}

void tell_case(const char *name, const char *word, long ret)
{
	const char *why = "";
	char line[512];

	if (ret < 0) {
		why = strerrorname_np(errno);
		if (!why)
			why = "unknown";
	}
	put_line(line, snprintf(line, sizeof(line),
	                        "{\"probe\":\"%s%s%s\",\"ret\":%ld,\"errno\":\"%s\"}\n", name,
	                        word ? ":" : "", word ? word : "", ret, why));
}

void tell(const char *name, long ret)
{
	tell_case(name, NULL, ret);
}

void tell_text(const char *name, const char *text)
{
	char line[9000];
	size_t len = (size_t)snprintf(line, sizeof(line), "{\"probe\":\"%s\",\"text\":\"", name);

	for (; *text && len < sizeof(line) - 16; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
			len += (size_t)snprintf(line + len, sizeof(line) - len, "\\u%04x", c);
		else
			line[len++] = (char)c;
	}
	memcpy(line + len, "\"}\n", 3);
	put_line(line, (int)len + 3);
}

bool is_inside(void)
{
	return getenv("CLOCHE_EXEC") != NULL; /* the mark that the agent puts into every exec */
}

long word_number(int argc, char **argv, int index, long fallback)
{
	char *end;
	long n;

	if (index >= argc)
		return fallback;
	n = strtol(argv[index], &end, 10);
	return *end || end == argv[index] ? fallback : n;
}

int in_child(void (*fn)(const void *arg), const void *arg)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (pid == 0) {
		fn(arg);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

long each_entry(int dir_fd, void (*fn)(const char *name, void *arg), void *arg)
{
	struct entry {
		uint64_t inode, offset;
		uint16_t len;
		uint8_t kind;
		char name[];
	};
	_Alignas(8) char data[4096];
	long n, count = 0;

	while ((n = syscall(SYS_getdents64, dir_fd, data, sizeof(data))) > 0)
		for (long at = 0; at < n;) {
			const struct entry *e = (const struct entry *)(data + at);

			at += e->len;
			if (!strcmp(e->name, ".") || !strcmp(e->name, ".."))
				continue;
			count++;
			if (fn)
				fn(e->name, arg);
		}
	(void)close(dir_fd);
	return n < 0 ? -1 : count;
}

static const struct probe *const tables[] = {escape_probes, foreign_probes, file_probes,
                                             load_probes, breach_probes};

static int usage(void)
{
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (const struct probe *p = tables[t]; p->name; p++)
			(void)fprintf(stderr, "probe %s %s\n", p->name, p->usage);
	return 2;
}

static int run(int argc, char **argv)
{
	if (argc < 2)
		return usage();
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (const struct probe *p = tables[t]; p->name; p++)
			if (!strcmp(p->name, argv[1]))
				return p->run(argc - 2, argv + 2);
	return usage();
}

int main(int argc, char **argv)
{
	if (argc > 0 && !strcmp(argv[0], "qemu")) /* the name that cloche-vmm calls it by */
		probe_as_qemu(run);
	return run(argc, argv);
}
