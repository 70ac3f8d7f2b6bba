// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CODE_FAILED  91
#define CODE_SKIPPED 92

extern const struct test_case __start_test_cases[], __stop_test_cases[];
static bool is_child;

static void failed(const char *file, int line)
{
	if (is_child) {
		(void)fflush(NULL);
		_exit(CODE_FAILED);
	}
	_fail(file, line);
	abort();
}

void test_check(int ok, const char *text, const char *file, int line)
{
	if (ok)
		return;
	print_error("%s:%d: does not hold: %s\n", file, line, text);
	failed(file, line);
}

void test_check_int(int64_t got, int64_t wanted, const char *text, const char *file, int line)
{
	if (got == wanted)
		return;
	print_error("%s:%d: %s is %" PRId64 ", should be %" PRId64 "\n", file, line, text, got,
	            wanted);
	failed(file, line);
}

void test_check_str(const char *got, const char *wanted, const char *text, const char *file,
                    int line)
{
	if (got == wanted || (got && wanted && strcmp(got, wanted) == 0))
		return;
	print_error("%s:%d: %s is '%s', should be '%s'\n", file, line, text, got ? got : "(null)",
	            wanted ? wanted : "(null)");
	failed(file, line);
}

static void print_bytes(const char *label, const void *data, size_t len)
{
	const unsigned char *p = data;

	print_error("  %s (%zu):", label, len);
	for (size_t i = 0; i < len && i < 64; i++)
		print_error(" %02x", p[i]);
	print_error("\n");
}

void test_check_mem(const void *got, size_t got_len, const void *wanted, size_t wanted_len,
                    const char *text, const char *file, int line)
{
	if (got_len == wanted_len && (got_len == 0 || memcmp(got, wanted, got_len) == 0))
		return;
	print_error("%s:%d: %s differs\n", file, line, text);
	print_bytes("is", got, got_len);
	print_bytes("should be", wanted, wanted_len);
	failed(file, line);
}

void test_skip(const char *reason)
{
	print_message("SKIP: %s\n", reason);
	if (is_child) {
		(void)fflush(NULL);
		_exit(CODE_SKIPPED);
	}
	_skip(__FILE__, __LINE__);
	abort();
}

static void kill_children(void)
{
	FILE *f = fopen("/proc/thread-self/children", "re");
	int pid;

	while (f && fscanf(f, "%d", &pid) == 1)
		(void)kill(pid, SIGKILL);
	if (f)
		(void)fclose(f);
}

/* What a forked test has started and left behind is ours now. None of it stays on the host. */
static void end_rest(void)
{
	do
		kill_children();
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR);
}

unsigned test_patience(void)
{
	const char *text = getenv("CLOCHE_PATIENCE");
	unsigned long n = text ? strtoul(text, NULL, 10) : 1;

	return n >= 1 && n <= 100 ? (unsigned)n : 1;
}

void test_run(void (*body)(void), unsigned seconds)
{
	int status;
	pid_t pid;

	if (seconds == 0) {
		body();
		return;
	}
	(void)fflush(NULL);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid = fork();
	if (pid == 0) {
		is_child = true;
		(void)alarm(seconds * test_patience());
		body();
		(void)fflush(NULL);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	end_rest();
	if (WIFEXITED(status) && WEXITSTATUS(status) == CODE_SKIPPED)
		_skip(__FILE__, __LINE__);
	if (WIFSIGNALED(status))
		print_error("killed by signal %d%s\n", WTERMSIG(status),
		            WTERMSIG(status) == SIGALRM ? " (time limit)" : "");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		_fail(__FILE__, __LINE__);
}

int main(int argc, char **argv)
{
	size_t n = (size_t)(__stop_test_cases - __start_test_cases);
	struct CMUnitTest *tests = calloc(n, sizeof(*tests));
	size_t kept = 0;
	int r;

	if (!tests)
		abort();
	for (size_t i = 0; i < n; i++) {
		if (argc > 1 && !strstr(__start_test_cases[i].name, argv[1]))
			continue;
		tests[kept].name = __start_test_cases[i].name;
		tests[kept++].test_func = __start_test_cases[i].fn;
	}
	r = _cmocka_run_group_tests(argv[0], tests, kept, NULL, NULL);
	free(tests);
	return r == 0 ? 0 : 1;
}
