// SPDX-License-Identifier: Apache-2.0
#include "base/fs/beneath.h"

#include "test.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define OPENS    2000
#define ATTEMPTS 200000 /* until the kernel gives up for once */

/* A process that renames a file of the directory for ever. */
static pid_t start_renaming(int dir_fd)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		(void)renameat(dir_fd, "x", dir_fd, "y");
		(void)renameat(dir_fd, "y", dir_fd, "x");
	}
}

static bool gives_up_once(int dir_fd)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};

	for (unsigned i = 0; i < ATTEMPTS; i++) {
		auto_fd int fd = (int)syscall(SYS_openat2, dir_fd, "a/../b", &how, sizeof(how));

		if (fd < 0)
			return errno == EAGAIN;
	}
	return false;
}

TEST_FORKED(a_way_with_dots_is_found_while_others_rename, 60)
{
	char path[] = "/tmp/cloche-beneath-XXXXXX";
	auto_fd int dir = -1;
	bool has_race;
	pid_t pid;
	unsigned failed = 0;

	CHECK(mkdtemp(path));
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir >= 0);
	CHECK_INT(mkdirat(dir, "a", 0700), 0);
	CHECK_INT(mkdirat(dir, "b", 0700), 0);
	CHECK_INT(mkdirat(dir, "x", 0700), 0);
	pid = start_renaming(dir);
	has_race = gives_up_once(dir);
	for (unsigned i = 0; i < OPENS; i++) {
		auto_fd int fd = beneath_resolve(dir, "a/../b", O_PATH, RESOLVE_IN_ROOT);

		failed += fd < 0;
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	(void)unlinkat(dir, "a", AT_REMOVEDIR);
	(void)unlinkat(dir, "b", AT_REMOVEDIR);
	if (unlinkat(dir, "x", AT_REMOVEDIR) < 0)
		(void)unlinkat(dir, "y", AT_REMOVEDIR);
	CHECK_INT(rmdir(path), 0);
	if (!has_race)
		SKIP("the kernel never gave up: one processor, perhaps");
	CHECK_INT(failed, 0);
}

TEST(a_way_that_leads_out_is_refused)
{
	auto_fd int dir = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_fd int out = beneath_resolve(dir, "..", O_PATH, RESOLVE_BENEATH);
	auto_fd int in = beneath_resolve(dir, "..", O_PATH, RESOLVE_IN_ROOT);
	struct stat root, found;

	CHECK_INT(out, -EXDEV);
	CHECK(in >= 0 && fstat(dir, &root) == 0 && fstat(in, &found) == 0);
	CHECK_INT(found.st_ino, root.st_ino);
}
