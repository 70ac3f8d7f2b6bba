// SPDX-License-Identifier: Apache-2.0
/*
 * The files of v1 and v2 differ in names and in details, which the functions handle. Paths are
 * always relative to a tree's PARENT directory, which is held open.
 */
#include "engine/linux/cgroup.h"

#include "base/fd.h"
#include "engine/linux/dir_tree.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>

/* For the agent: it holds output that the host has not acknowledged, and forks a child for each
 * exec, which moves to `user` afterwards. */
#define AGENT_MEMORY_BYTES (UINT64_C(192) << 20)
#define AGENT_PIDS         1024
#define CPU_PERIOD_US      100000U /* the kernel's own, too */
#define V1_WEIGHT_MIN      2U
#define V1_WEIGHT_USUAL    1024U
#define V1_WEIGHT_MAX      262144U
#define V2_WEIGHT_USUAL    100U
#define V2_WEIGHT_MAX      10000U

/* Its name is not longer than `user`: it is the root of the cgroup namespace, and CRIU refuses a
 * process whose group has a shorter path than that. */
#define AGENT_LEAF "init"

/* Below ID. */
static const char *agent_leaf(const struct cgroup_tree *t)
{
	return t->is_flat ? "." : AGENT_LEAF;
}

static int write_value(const struct cgroup_tree *t, const char *id, const char *leaf,
                       const char *file, uint64_t value, struct err *err)
{
	char path[160], text[32];
	int r;

	(void)snprintf(path, sizeof(path), "%s/%s/%s", id, leaf, file);
	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	r = fd_write_file(t->fd, path, text);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot set %s of %s to %s", file, leaf, text)
	             : 0;
}

static int set_memory(const struct cgroup_tree *t, const char *id, const char *leaf, uint64_t bytes,
                      struct err *err)
{
	struct err ignored;
	int first, r;

	if (t->is_v2) {
		r = write_value(t, id, leaf, "memory.swap.max", 0, err);
		if (r < 0 && r != -ENOENT) /* a kernel without swap has no such file */
			return r;
		return write_value(t, id, leaf, "memory.max", bytes, err);
	}
	/* v1 requires limit <= memsw at every moment: the first write works if the limit is
	 * lowered, the last one if it is raised. Without swap accounting there is no memsw. */
	first = write_value(t, id, leaf, "memory.limit_in_bytes", bytes, &ignored);
	r = write_value(t, id, leaf, "memory.memsw.limit_in_bytes", bytes, err);
	if (r < 0 && r != -ENOENT)
		return r;
	return first == 0 ? 0 : write_value(t, id, leaf, "memory.limit_in_bytes", bytes, err);
}

static int set_cpu(const struct cgroup_host *h, const char *id, uint32_t milli, struct err *err)
{
	const struct cgroup_tree *t = cgroup_find_tree(h, CGROUP_CPU);
	uint64_t quota_us = (uint64_t)milli * CPU_PERIOD_US / 1000;
	char path[160], text[48];
	int r;

	if (!t)
		return 0;
	if (t->is_v2) {
		(void)snprintf(path, sizeof(path), "%s/user/cpu.max", id);
		(void)snprintf(text, sizeof(text), "%" PRIu64 " %u", quota_us, CPU_PERIOD_US);
		r = fd_write_file(t->fd, path, text);
		return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot set cpu.max to %s", text) : 0;
	}
	return write_value(t, id, "user", "cpu.cfs_quota_us", quota_us, err);
}

int cgroup_set_limits(const struct cgroup_host *h, const char *id,
                      const struct guest_limits *limits, struct err *err)
{
	const struct cgroup_tree *memory = cgroup_find_tree(h, CGROUP_MEMORY);
	const struct cgroup_tree *pids = cgroup_find_tree(h, CGROUP_PIDS);
	int r = set_cpu(h, id, limits->cpu_milli, err);

	if (r == 0 && memory)
		r = set_memory(memory, id, "user", limits->memory_bytes, err);
	if (r == 0 && memory)
		r = set_memory(memory, id, agent_leaf(memory),
		               AGENT_MEMORY_BYTES + (memory->is_flat ? limits->memory_bytes : 0),
		               err);
	if (r == 0 && pids)
		r = write_value(pids, id, "user", "pids.max", limits->pids, err);
	if (r == 0 && pids)
		r = write_value(pids, id, agent_leaf(pids), "pids.max",
		                AGENT_PIDS + (pids->is_flat ? limits->pids : 0), err);
	return r;
}

static int make_dirs(const struct cgroup_tree *t, const char *id)
{
	char path[160];

	if (mkdirat(t->fd, id, 0755) < 0 && errno != EEXIST)
		return -errno;
	(void)snprintf(path, sizeof(path), "%s/user", id);
	if (t->is_flat)
		return mkdirat(t->fd, path, 0755) < 0 && errno != EEXIST ? -errno : 0;
	(void)cgroup_enable(t->fd, id);
	if (mkdirat(t->fd, path, 0755) < 0 && errno != EEXIST)
		return -errno;
	(void)snprintf(path, sizeof(path), "%s/" AGENT_LEAF, id);
	return mkdirat(t->fd, path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

int cgroup_make(const struct cgroup_host *h, const char *id, const struct guest_limits *limits,
                struct err *err)
{
	int r;

	for (size_t i = 0; i < h->n; i++) {
		r = make_dirs(&h->trees[i], id);
		if (r < 0)
			return err_set(err, ERR_CAPACITY, -r, "cannot make the sandbox's cgroups");
	}
	return cgroup_set_limits(h, id, limits, err);
}

int cgroup_open_agent(const struct cgroup_host *h, const char *id)
{
	char path[160];

	for (size_t i = 0; i < h->n; i++) {
		const struct cgroup_tree *t = &h->trees[i];

		if (!t->is_v2)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", id, agent_leaf(t));
		return make_dirs(t, id) < 0
		               ? -1
		               : openat(t->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return -1;
}

int cgroup_join_agent(const struct cgroup_host *h, const char *id, pid_t pid, struct err *err)
{
	for (size_t i = 0; i < h->n; i++) {
		int r;

		if (h->trees[i].is_v2)
			continue;
		r = write_value(&h->trees[i], id, agent_leaf(&h->trees[i]), "cgroup.procs",
		                (uint64_t)pid, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The tree's file is added to the n fds that are open; on failure these are closed. */
static int open_one_more(const struct cgroup_tree *t, const char *path, int fds[], int n,
                         struct err *err)
{
	int r;

	fds[n] = openat(t->fd, path, O_WRONLY | O_CLOEXEC);
	if (fds[n] >= 0)
		return n + 1;
	r = err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", path);
	while (n-- > 0)
		(void)close(fds[n]);
	return r;
}

int cgroup_open_join(const struct cgroup_host *h, const char *id, int fds[CGROUP_TREES_MAX],
                     struct err *err)
{
	char path[160];
	int n = 0;

	for (size_t i = 0; n >= 0 && i < h->n; i++) {
		if (h->trees[i].is_v2)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s/tasks", id, agent_leaf(&h->trees[i]));
		n = open_one_more(&h->trees[i], path, fds, n, err);
	}
	return n;
}

int cgroup_open_user(const struct cgroup_host *h, const char *id, int fds[CGROUP_TREES_MAX],
                     struct err *err)
{
	char path[160];
	int n = 0;

	(void)snprintf(path, sizeof(path), "%s/user/cgroup.procs", id);
	for (size_t i = 0; n >= 0 && i < h->n; i++)
		n = open_one_more(&h->trees[i], path, fds, n, err);
	return n;
}

/* The number in a file, or after key in a file of "key number" lines; 0 if there is none. */
static uint64_t read_leaf(const struct cgroup_tree *t, const char *id, const char *leaf,
                          const char *file, const char *key)
{
	char path[160], text[4096];
	const char *p = text;

	(void)snprintf(path, sizeof(path), "%s/%s/%s", id, leaf, file);
	if (fd_read_file(t->fd, path, text, sizeof(text)) < 0)
		return 0;
	for (; key && p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, key, strlen(key)) == 0 && p[strlen(key)] == ' ') {
			p += strlen(key) + 1;
			break;
		}
	}
	return p ? strtoull(p, NULL, 10) : 0;
}

static uint64_t read_value(const struct cgroup_tree *t, const char *id, const char *file,
                           const char *key)
{
	return read_leaf(t, id, "user", file, key);
}

int cgroup_confine(const struct cgroup_host *h, const char *name, const struct guest_limits *limits,
                   pid_t pid, struct err *err)
{
	int fds[CGROUP_TREES_MAX], r = 0;
	int n = cgroup_make(h, name, limits, err);
	char text[16];

	if (n == 0)
		n = cgroup_open_user(h, name, fds, err);
	if (n < 0)
		return n;
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	for (int i = 0; i < n; i++) {
		if (write(fds[i], text, strlen(text)) < 0)
			r = err_set(err, ERR_INTERNAL, errno, "cannot join the group '%s'", name);
		(void)close(fds[i]);
	}
	return r;
}

int cgroup_set_weight(const struct cgroup_host *h, const char *id, uint32_t weight, struct err *err)
{
	const struct cgroup_tree *t = cgroup_find_tree(h, CGROUP_CPU);

	if (!t)
		return 0;
	if (!t->is_v2)
		return write_value(t, id, ".", "cpu.shares",
		                   MIN(MAX(weight, V1_WEIGHT_MIN), V1_WEIGHT_MAX), err);
	weight = (weight * V2_WEIGHT_USUAL + V1_WEIGHT_USUAL / 2) / V1_WEIGHT_USUAL;
	return write_value(t, id, ".", "cpu.weight", MIN(MAX(weight, 1U), V2_WEIGHT_MAX), err);
}

int cgroup_set_weight_of_all(const struct cgroup_host *h, uint32_t weight, struct err *err)
{
	const struct cgroup_tree *t = cgroup_find_tree(h, CGROUP_CPU);
	char text[32];

	if (!t ||
	    fd_read_file(t->fd, t->is_v2 ? "cpu.weight" : "cpu.shares", text, sizeof(text)) < 0)
		return 0; /* the root of a tree has none */
	if (strtoul(text, NULL, 10) != (t->is_v2 ? V2_WEIGHT_USUAL : V1_WEIGHT_USUAL))
		return 0;
	return cgroup_set_weight(h, ".", weight, err);
}

uint64_t cgroup_cpu_ns(const struct cgroup_host *h, const char *id)
{
	const struct cgroup_tree *t = cgroup_find_tree(h, CGROUP_CPU_USAGE);

	if (!t)
		return 0;
	return t->is_v2 ? read_leaf(t, id, ".", "cpu.stat", "usage_usec") * 1000
	                : read_leaf(t, id, ".", "cpuacct.usage", NULL);
}

void cgroup_usage(const struct cgroup_host *h, const char *id, struct guest_usage *usage)
{
	const struct cgroup_tree *t;

	t = cgroup_find_tree(h, CGROUP_MEMORY);
	if (t && t->is_v2) {
		usage->memory_bytes = read_value(t, id, "memory.current", NULL);
		usage->memory_peak_bytes = read_value(t, id, "memory.peak", NULL);
		usage->oom_kills = read_value(t, id, "memory.events", "oom_kill");
	} else if (t) {
		usage->memory_bytes = read_value(t, id, "memory.usage_in_bytes", NULL);
		usage->memory_peak_bytes = read_value(t, id, "memory.max_usage_in_bytes", NULL);
		usage->oom_kills = read_value(t, id, "memory.oom_control", "oom_kill");
	}
	t = cgroup_find_tree(h, CGROUP_PIDS);
	if (t) {
		usage->pids = read_value(t, id, "pids.current", NULL);
		usage->pids_refused = read_value(t, id, "pids.events", "max");
	}
	t = cgroup_find_tree(h, CGROUP_CPU_USAGE);
	if (t)
		usage->cpu_ns = t->is_v2 ? read_value(t, id, "cpu.stat", "usage_usec") * 1000
		                         : read_value(t, id, "cpuacct.usage", NULL);
}

void cgroup_shortage(const struct cgroup_host *h, const char *id, struct guest_shortage *ret)
{
	const struct cgroup_tree *t = cgroup_find_tree(h, CGROUP_MEMORY);
	const char *leaf = t ? agent_leaf(t) : NULL;

	if (t && t->is_v2)
		*ret = (struct guest_shortage){
			.oom_kills = read_leaf(t, id, leaf, "memory.events", "oom_kill"),
			.limit_bytes = read_leaf(t, id, leaf, "memory.max", NULL),
			.peak_bytes = read_leaf(t, id, leaf, "memory.peak", NULL),
		};
	else if (t) /* a v1 group counts those of its own processes, and not of groups below it */
		*ret = (struct guest_shortage){
			.oom_kills = read_leaf(t, id, leaf, "memory.oom_control", "oom_kill"),
			.limit_bytes = read_leaf(t, id, leaf, "memory.limit_in_bytes", NULL),
			.peak_bytes = read_leaf(t, id, leaf, "memory.max_usage_in_bytes", NULL),
		};
}

int cgroup_freeze(const struct cgroup_host *h, const char *id, bool on, struct err *err)
{
	const struct cgroup_tree *t = cgroup_find_tree(h, CGROUP_FREEZE);
	char path[160], state[16];
	int r;

	if (!t)
		return err_set(err, ERR_UNSUPPORTED, ENOSYS,
		               "this host has no cgroup that freezes");
	if (t->is_v2) {
		r = write_value(t, id, "user", "cgroup.freeze", on, err);
		return r < 0 || !on ? r : read_value(t, id, "cgroup.events", "frozen") != 1;
	}
	(void)snprintf(path, sizeof(path), "%s/user/freezer.state", id);
	r = fd_write_file(t->fd, path, on ? "FROZEN" : "THAWED");
	if (r == 0 && on)
		r = fd_read_file(t->fd, path, state, sizeof(state));
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot set freezer.state");
	return on && strncmp(state, "FROZEN", strlen("FROZEN")) != 0;
}

/* Whether the process is in the group, or in one below it. */
static bool is_member(const struct cgroup_host *h, const char *id, long pid)
{
	char path[40], text[4096], part[160];

	(void)snprintf(path, sizeof(path), "/proc/%ld/cgroup", pid);
	(void)snprintf(part, sizeof(part), "/%s/%s", h->parent, id);
	return fd_read_file(AT_FDCWD, path, text, sizeof(text)) > 0 && strstr(text, part);
}

/* A pid may be reused before we use it. So the process is opened as a pidfd first, and its
 * membership is checked after that. */
static void kill_member(const struct cgroup_host *h, const char *id, long pid)
{
	auto_fd int pidfd = pidfd_open((pid_t)pid, 0);

	if (pidfd >= 0 && is_member(h, id, pid))
		(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
}

/* v1 has no cgroup.kill. Processes that fork while the list is read are caught by the caller's next
 * try. */
static void kill_listed(const struct cgroup_host *h, const struct cgroup_tree *t, const char *id,
                        const char *leaf)
{
	char path[160];
	auto_fd int fd = -1;
	FILE *procs;
	long pid;

	(void)snprintf(path, sizeof(path), "%s/%s/cgroup.procs", id, leaf);
	fd = openat(t->fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	procs = fdopen(fd, "re");
	if (!procs)
		return;
	(void)take_fd(&fd);
	while (fscanf(procs, "%ld", &pid) == 1)
		if (pid > 1)
			kill_member(h, id, pid);
	(void)fclose(procs);
}

void cgroup_kill(const struct cgroup_host *h, const char *id)
{
	char path[160];

	(void)snprintf(path, sizeof(path), "%s/cgroup.kill", id);
	for (size_t i = 0; i < h->n; i++) {
		const struct cgroup_tree *t = &h->trees[i];

		if (t->is_v2 && fd_write_file(t->fd, path, "1") == 0)
			continue; /* cgroup.kill is of 5.14 */
		kill_listed(h, t, id, "user");
		kill_listed(h, t, id, agent_leaf(t));
	}
}

int cgroup_remove(const struct cgroup_host *h, const char *id)
{
	char path[160];
	int r = 0;

	for (size_t i = 0; i < h->n; i++) {
		(void)snprintf(path, sizeof(path), "%s/user", id);
		(void)unlinkat(h->trees[i].fd, path, AT_REMOVEDIR);
		(void)snprintf(path, sizeof(path), "%s/" AGENT_LEAF, id);
		if (!h->trees[i].is_flat)
			(void)unlinkat(h->trees[i].fd, path, AT_REMOVEDIR);
		if (unlinkat(h->trees[i].fd, id, AT_REMOVEDIR) < 0 && errno != ENOENT)
			r = -errno;
	}
	return r;
}

void cgroup_each(const struct cgroup_host *h, void (*fn)(const char *id, void *arg), void *arg)
{
	for (size_t i = 0; i < h->n; i++)
		dir_tree_each_id(h->trees[i].fd, fn, arg);
}
