// SPDX-License-Identifier: Apache-2.0
/*
 * The generator comes first: whatever is random after it differs between copies of one machine.
 *
 * This starts a copy of a machine. In an emulated machine, code that runs for the first time costs
 * more than what it does. So whatever is already as it should be is left alone, and files are
 * overwritten in place, so that the filesystem needs no new blocks.
 *
 * Memory: all execs together may have everything but what the agent and the kernel need to survive
 * and to report it.
 */
#include "agent/vm/setup.h"

#include "agent/vm/netif.h"
#include "base/fd.h"
#include "base/parse.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/random.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <time.h>

#define RESERVE_BYTES (UINT64_C(32) << 20)
#define FREEZE_TRIES  2000
#define FREEZE_TRY_US 1000

static int renew_random(struct settings *s, const struct port_setup *setup, struct err *err)
{
	struct { /* the kernel's struct rand_pool_info, whose last field has no length */
		int entropy_count, buf_size;
		uint8_t bytes[sizeof(setup->seed)];
	} pool = {.entropy_count = 8 * sizeof(setup->seed), .buf_size = sizeof(setup->seed)};

	if (!setup->has_seed)
		return 0;
	memcpy(pool.bytes, setup->seed, sizeof(pool.bytes));
	if (ioctl(s->kernel_random_fd, RNDADDENTROPY, &pool) < 0 ||
	    ioctl(s->kernel_random_fd, RNDRESEEDCRNG) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot seed the kernel's generator");
	return 0;
}

static int set_clock(struct settings *s, const struct port_setup *setup, struct err *err)
{
	const struct timespec now = {.tv_sec = (time_t)(setup->clock_us / 1000000),
	                             .tv_nsec = (long)(setup->clock_us % 1000000) * 1000};

	(void)s;
	if (setup->clock_us > 0 && clock_settime(CLOCK_REALTIME, &now) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot set the clock");
	return 0;
}

static int write_text(const char *path, const char *text)
{
	const off_t len = (off_t)strlen(text);
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	r = fd_write_all(fd, text, (size_t)len);
	return r == 0 && st.st_size > len && ftruncate(fd, len) < 0 ? -errno : r;
}

static int set_hostname(struct settings *s, const struct port_setup *setup, struct err *err)
{
	(void)s;
	if (setup->hostname[0] && sethostname(setup->hostname, strlen(setup->hostname)) < 0)
		return err_set(err, ERR_INTERNAL, errno, "sethostname");
	return 0;
}

int setup_write_names(const struct port_setup *setup, struct err *err)
{
	char text[192];
	int r = 0;

	if (setup->hostname[0]) {
		(void)snprintf(text, sizeof(text), "%s\n", setup->hostname);
		r = write_text("/etc/hostname", text);
		(void)snprintf(text, sizeof(text), "127.0.0.1\tlocalhost %s\n::1\tlocalhost\n",
		               setup->hostname);
		if (r == 0)
			r = write_text("/etc/hosts", text);
	}
	if (r == 0 && setup->has_machine_id) {
		for (size_t i = 0; i < sizeof(setup->machine_id); i++)
			(void)snprintf(text + 2 * i, sizeof(text) - 2 * i, "%02x\n",
			               setup->machine_id[i]);
		r = write_text("/etc/machine-id", text);
	}
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write the names in /etc") : 0;
}

static int set_network(struct settings *s, const struct port_setup *setup, struct err *err)
{
	char address[INET_ADDRSTRLEN], text[128];
	int r = netif_configure(setup, err);

	(void)s;
	if (r < 0 || !setup->gateway4.is_set)
		return r;
	(void)snprintf(text, sizeof(text), "nameserver %s\noptions attempts:3 timeout:3\n",
	               inet_ntop(AF_INET, setup->gateway4.bytes, address, sizeof(address)));
	(void)unlink("/etc/resolv.conf"); /* a link of somebody's is not followed */
	r = write_text("/etc/resolv.conf", text);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write /etc/resolv.conf") : 0;
}

static int set_limit(int group_fd, const char *name, uint64_t value, uint64_t *set)
{
	char text[24];
	int r;

	if (value == 0 || value == *set)
		return 0;
	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	r = fd_write_file(group_fd, name, text);
	if (r == 0)
		*set = value;
	return r;
}

static uint64_t memory_of_execs(void)
{
	struct sysinfo info;
	uint64_t total;

	if (sysinfo(&info) < 0)
		return 0;
	total = (uint64_t)info.totalram * info.mem_unit;
	return total > 2 * RESERVE_BYTES ? total - RESERVE_BYTES : total / 2;
}

static int set_limits(struct settings *s, const struct port_setup *setup, struct err *err)
{
	const uint64_t most = memory_of_execs();
	const uint64_t memory = setup->memory_bytes > 0 ? MIN(setup->memory_bytes, most) : most;
	int r = set_limit(s->group_fd, "memory.max", memory, &s->memory_bytes);

	if (r == 0)
		r = set_limit(s->group_fd, "pids.max", setup->pids, &s->pids);
	if (setup->open_files > 0)
		s->open_files = setup->open_files;
	if (setup->has_caps)
		s->root_caps = setup->caps;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot limit the execs") : 0;
}

static int (*const steps[])(struct settings *s, const struct port_setup *setup, struct err *err) = {
	renew_random, set_clock, set_hostname, set_network, set_limits,
};

int setup_apply(struct settings *s, const struct port_setup *setup, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r = steps[i](s, setup, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static uint64_t read_figure(int group_fd, const char *name)
{
	char text[32];
	uint64_t value;

	if (fd_read_file(group_fd, name, text, sizeof(text)) < 0 ||
	    parse_u64(text, UINT64_MAX, &value) < 0)
		return 0;
	return value;
}

/* "KEY NUMBER" in a file of such lines. */
static uint64_t read_event(int group_fd, const char *name, const char *key)
{
	char text[512];
	const size_t len = strlen(key);

	if (fd_read_file(group_fd, name, text, sizeof(text)) < 0)
		return 0;
	for (char *line = text, *next; line; line = next) {
		uint64_t value;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (strncmp(line, key, len) == 0 && line[len] == ' ' &&
		    parse_u64(line + len + 1, UINT64_MAX, &value) == 0)
			return value;
	}
	return 0;
}

void setup_freeze(const struct settings *s, bool on)
{
	if (fd_write_file(s->group_fd, "cgroup.freeze", on ? "1" : "0") < 0 || !on)
		return;
	/* What is in the kernel comes out of it first, which a slow disk can put off. */
	for (unsigned i = 0; i < FREEZE_TRIES; i++) {
		if (read_event(s->group_fd, "cgroup.events", "frozen") == 1)
			return;
		(void)usleep(FREEZE_TRY_US);
	}
}

void setup_measure(const struct settings *s, struct port_usage *ret)
{
	struct statvfs st = {0};

	(void)statvfs("/", &st);
	*ret = (struct port_usage){
		.oom_kills = read_event(s->group_fd, "memory.events", "oom_kill"),
		.pids_refused = read_event(s->group_fd, "pids.events", "max"),
		.memory_bytes = read_figure(s->group_fd, "memory.current"),
		.memory_peak_bytes = read_figure(s->group_fd, "memory.peak"),
		.pids = read_figure(s->group_fd, "pids.current"),
		.disk_bytes = (uint64_t)(st.f_blocks - st.f_bfree) * st.f_frsize,
		.disk_total_bytes = (uint64_t)st.f_blocks * st.f_frsize,
		.inodes = (uint64_t)(st.f_files - st.f_ffree),
	};
}
