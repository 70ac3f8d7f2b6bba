// SPDX-License-Identifier: Apache-2.0
/*
 * A living daemon holds RUN/lock, and a starting one takes it within seconds: a directory whose
 * lock is free, or which has none and is no longer young, has no owner. /var/tmp is everybody's, so
 * only what root made counts, and nothing is followed. Failures are not told: the run that found
 * the leftovers has other things to do, and the next one tries again.
 */
#include "cli/session/leftover.h"

#include "base/process/spawn.h"

#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define YOUNG_SECONDS 60

static bool is_ownerless(const char *dir)
{
	auto_free char *lock = xasprintf("%s/run/lock", dir);
	auto_fd int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int lock_fd = -1;
	struct stat st;

	if (dir_fd < 0 || fstat(dir_fd, &st) < 0 || st.st_uid != 0)
		return false;
	lock_fd = open(lock, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (lock_fd < 0)
		return time(NULL) - st.st_mtime > YOUNG_SECONDS;
	return flock(lock_fd, LOCK_EX | LOCK_NB) == 0;
}

static void sweep(const char *dir)
{
	auto_free char *run = xasprintf("%s/run", dir);
	auto_free char *data = xasprintf("%s/data", dir);
	const char *const serve[] = {"/proc/self/exe", "serve", "--sweep", "--listen", "none",
	                             "--run",          run,     "--data",  data,       "--config",
	                             "/dev/null",      NULL};
	const char *const rm[] = {"/bin/rm", "-rf", "--one-file-system", "--", dir, NULL};

	if (access(run, F_OK) == 0 && spawn_run(serve, NULL) < 0)
		return;
	(void)!spawn_run(rm, NULL);
}

void leftover_sweep(void)
{
	glob_t found;

	if (glob(LEFTOVER_PREFIX "*", GLOB_NOSORT, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		if (is_ownerless(found.gl_pathv[i]))
			sweep(found.gl_pathv[i]);
	globfree(&found);
}
