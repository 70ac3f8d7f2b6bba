// SPDX-License-Identifier: Apache-2.0
/* An agent that lets go of the host, so that it can be saved. */
#include "agent-host.h"
#include "base/clock.h"
#include "base/fd.h"
#include "proto/quiet.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define DEADLINE_US (UINT64_C(20000000) * test_patience())
#define AGENT       1 /* its pid, in the /proc of its own namespace */

/* In the place of the group that children join first: who joins it waits until it is drained. */
static int make_full_group(void)
{
	int fds[2];
	char number[16];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(fd_set_nonblock(fds[1], true), 0);
	while (write(fds[1], "x", 1) == 1)
		continue;
	CHECK_INT(fd_set_nonblock(fds[1], false), 0);
	CHECK_INT(fcntl(fds[1], F_SETFD, 0), 0);
	(void)snprintf(number, sizeof(number), "%d", fds[1]);
	CHECK_INT(setenv("CLOCHE_CGROUP_FDS", number, 1), 0);
	return fds[0];
}

static int find_standby(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	int found = 0;

	CHECK(dir != NULL);
	while (!found && (e = readdir(dir))) {
		char path[300], name[64];

		(void)snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		if (fd_read_file(AT_FDCWD, path, name, sizeof(name)) >= 0 &&
		    strcmp(name, "cloche-standby") == 0)
			found = (int)strtol(e->d_name, NULL, 10);
	}
	(void)closedir(dir);
	return found;
}

TEST_FORKED(it_is_quiet_when_no_child_has_anything_of_the_hosts, 60)
{
	const uint64_t until_us = clock_steady_us() + DEADLINE_US;
	const unsigned char token[QUIET_TOKEN_SIZE] = {0};
	int group_fd = make_full_group(), child;
	char bytes[4096];

	host_start_as_init();
	while (!(child = find_standby()))
		CHECK(clock_steady_us() < until_us);
	CHECK(host_is_listened_to(child));
	host_connect(2);
	host_send(FRAME_QUIESCE, 0, token, sizeof(token));
	while (host_is_listened_to(AGENT))
		CHECK(clock_steady_us() < until_us);
	CHECK(host_is_silent());
	CHECK(read(group_fd, bytes, sizeof(bytes)) > 0);
	CHECK(host_is_hung_up());
	CHECK(!host_is_listened_to(child));
}
