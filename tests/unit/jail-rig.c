// SPDX-License-Identifier: Apache-2.0
#include "jail-rig.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/units.h"
#include "engine/linux/dir_tree.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SETTLE_US (30 * 1000000U)

struct jail_rig jail_rig;

static int load_payload(void)
{
	char path[PATH_MAX], *slash, chunk[65536];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 20);
	auto_fd int from = -1;
	int fd = memfd_create("agent", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(n > 0);
	path[n] = '\0';
	slash = strrchr(path, '/');
	(void)snprintf(slash, sizeof(path) - (size_t)(slash - path), "/jail-payload");
	from = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(from >= 0);
	while ((n = read(from, chunk, sizeof(chunk))) > 0)
		CHECK_INT(fd_write_all(fd, chunk, (size_t)n), 0);
	CHECK_INT(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL),
	          0);
	return fd;
}

void jail_rig_probe(void)
{
	struct engine_host host = {.loop = jail_rig.loop,
	                           .data_dir = jail_rig.data,
	                           .run_dir = jail_rig.run,
	                           .agent_fd = jail_rig.agent_fd,
	                           .disk_share = 100,
	                           .is_plain_storage = jail_rig.is_plain};

	if (jail_engine.probe(&host, &jail_rig.host, &jail_rig.err) < 0) {
		print_message("%s\n", jail_rig.err.message);
		CHECK(false);
	}
}

void jail_rig_set_up(bool is_plain)
{
	if (geteuid() != 0)
		SKIP("the jail needs root");
	(void)snprintf(jail_rig.top, sizeof(jail_rig.top), "/tmp/%.32s.XXXXXX",
	               program_invocation_short_name);
	CHECK(mkdtemp(jail_rig.top) != NULL);
	(void)snprintf(jail_rig.data, sizeof(jail_rig.data), "%s/data", jail_rig.top);
	(void)snprintf(jail_rig.run, sizeof(jail_rig.run), "%s/run", jail_rig.top);
	CHECK_INT(mkdir(jail_rig.data, 0755), 0);
	CHECK_INT(mkdir(jail_rig.run, 0755), 0);
	CHECK_INT(loop_new(&jail_rig.loop, &jail_rig.err), 0);
	jail_rig.agent_fd = load_payload();
	jail_rig.is_plain = is_plain;
	jail_rig_probe();
}

const char *jail_rig_on_host(void)
{
	auto_free char *command = NULL;
	uint32_t hash = 2166136261U; /* names the parent group, as the engine does */

	for (const char *p = jail_rig.run; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619U;
	command = xasprintf("grep %s /proc/self/mountinfo; "
	                    "grep %s /sys/block/loop*/loop/backing_file 2>/dev/null; "
	                    "find /sys/fs/cgroup -name cloche-%08x 2>/dev/null",
	                    jail_rig.top, jail_rig.top, hash);
	return jail_rig_host_says(command);
}

/* What stays of it. A loop device may outlive its mount for as long as a namespace that a stranger
 * is just making, which has a copy of it. */
static const char *leftovers(void)
{
	const uint64_t until_us = clock_steady_us() + SETTLE_US;
	const char *left;

	while (*(left = jail_rig_on_host()) && clock_steady_us() < until_us)
		(void)usleep(10000);
	return left;
}

void jail_rig_tear_down(void)
{
	jail_engine.leave(jail_rig.host);
	loop_free(jail_rig.loop);
	CHECK_INT(dir_tree_remove(AT_FDCWD, jail_rig.top), 0);
	CHECK_STR(leftovers(), "");
}

void jail_rig_on_started(struct guest *g, const struct err *err, void *arg)
{
	(void)g;
	(void)arg;
	jail_rig.is_failed = err != NULL;
	if (err)
		jail_rig.err = *err;
	loop_stop(jail_rig.loop);
}

void jail_rig_on_ended(struct guest *g, int wait_status, void *arg)
{
	(void)g;
	(void)arg;
	jail_rig.is_ended = true;
	jail_rig.wait_status = wait_status;
	loop_stop(jail_rig.loop);
}

void jail_rig_on_gone(void *arg)
{
	(void)arg;
	jail_rig.is_gone = true;
	loop_stop(jail_rig.loop);
}

struct guest_spec jail_rig_spec(uint32_t slot)
{
	struct guest_spec spec = {.hostname = "bell",
	                          .engine = ENGINE_BASE,
	                          .slot = slot,
	                          .limits = {.memory_bytes = 128 * MIB,
	                                     .disk_bytes = 64 * MIB,
	                                     .inodes = 10000,
	                                     .cpu_milli = 1000,
	                                     .pids = 32,
	                                     .open_files = 256}};

	id_make(spec.id, "sb");
	return spec;
}

struct guest *jail_rig_start(const struct guest_spec *spec)
{
	struct guest *g = NULL;

	if (jail_engine.start(jail_rig.host, spec, jail_rig_on_started, jail_rig_on_ended, NULL, &g,
	                      &jail_rig.err) < 0)
		jail_rig.is_failed = true;
	else
		CHECK_INT(loop_run(jail_rig.loop), 0);
	if (jail_rig.is_failed)
		print_error("start failed: %s\n", jail_rig.err.message);
	CHECK(!jail_rig.is_failed);
	return g;
}

void jail_rig_end(struct guest *g)
{
	jail_rig.is_gone = false;
	jail_engine.kill(g, jail_rig_on_gone, NULL);
	CHECK_INT(loop_run(jail_rig.loop), 0);
	CHECK(jail_rig.is_gone);
}

const char *jail_rig_say(struct guest *g, const char *command)
{
	static char text[65536];
	auto_fd int fd = -1;
	size_t len = 0;
	ssize_t n;

	CHECK_INT(jail_engine.connect(g, &fd, &jail_rig.err), 0);
	CHECK_INT(fd_set_nonblock(fd, false), 0);
	CHECK_INT(fd_write_all(fd, command, strlen(command)), 0);
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	while (len > 0 && text[len - 1] == '\n')
		len--;
	text[len] = '\0';
	return text;
}

const char *jail_rig_host_says(const char *command)
{
	static char text[16384];
	int pipe_fds[2];
	size_t len = 0;
	ssize_t n;

	CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
	if (fork() == 0) {
		(void)dup2(pipe_fds[1], STDOUT_FILENO);
		(void)execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(1);
	}
	(void)close(pipe_fds[1]);
	while ((n = read(pipe_fds[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	(void)close(pipe_fds[0]);
	return text;
}

struct digest jail_rig_image(const char *extra)
{
	auto_free char *command = xasprintf(
		"cd %s && mkdir -p tree/bin tree/etc tree/data && cp /bin/busybox tree/bin && "
		"chmod 755 tree/bin/busybox && for i in sh cat ls id stat rm touch hostname echo "
		"grep "
		"find; do ln -sf busybox tree/bin/$i; done && echo image > tree/etc/mark && "
		"chown 1000:1000 tree/data && chmod 700 tree/data && echo secret > tree/data/own "
		"&& "
		"chown 1000:1000 tree/data/own && echo mine > tree/etc/resolv.conf && %s && "
		"mkfs.erofs --quiet -x-1 image tree >/dev/null && h=$(sha256sum image | cut "
		"-c1-64) && "
		"mkdir -p data/templates/$h && mv image data/templates/$h/image.erofs && "
		"echo 77 > data/templates/$h/keeper && echo $h && rm -r tree",
		jail_rig.top, extra);
	char hex[DIGEST_HEX] = "";
	struct digest digest;

	(void)snprintf(hex, sizeof(hex), "%.64s", jail_rig_host_says(command));
	CHECK_INT(digest_parse(hex, &digest), 0);
	return digest;
}
