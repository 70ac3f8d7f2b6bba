// SPDX-License-Identifier: Apache-2.0
/*
 * All of it is read from /proc while nothing of the guest runs. The guest chooses the name in the
 * first line of status. That is safe: lines are found by their beginnings, and a newline in a name
 * is escaped.
 */
#include "engine/jail/memory/confinement.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "engine/linux/namespaces.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define STATUS_SIZE 8192
#define GROUPS_SIZE 8192
#define MODE_FILTER 2

static const char *const cap_lines[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};

/* The value of the line with that name, or NULL. */
static const char *find_line(const char *text, const char *name)
{
	for (const char *at = text; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
		if (strncmp(at, name, strlen(name)) == 0)
			return at + strlen(name);
	return NULL;
}

static int read_number(const char *text, const char *name, int base, uint64_t *ret)
{
	const char *at = find_line(text, name);
	char *end;

	if (!at)
		return -EPROTO;
	*ret = strtoull(at, &end, base);
	return end == at ? -EPROTO : 0;
}

/* The last number of the line: the pid in the innermost namespace. */
static int read_inner_id(const char *text, int32_t *ret)
{
	const char *at = find_line(text, "NSpid:");
	const char *end = at ? strchrnul(at, '\n') : NULL;

	while (at && at < end) {
		*ret = (int32_t)strtol(at, NULL, 10);
		at += strspn(at, " \t");
		at += strcspn(at, " \t\n");
	}
	return end ? 0 : -EPROTO;
}

/* Whether it is dead and has released its resources. */
static bool is_dead(const char *text)
{
	const char *at = find_line(text, "State:\t");

	return at && (*at == 'Z' || *at == 'X');
}

static int parse_status(const char *text, uint32_t first_id, struct confinement *ret)
{
	uint64_t uid = 0, gid = 0, privs = 0, mode = 0, filters = 0;
	int r = read_inner_id(text, &ret->tid);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(cap_lines); i++)
		r = read_number(text, cap_lines[i], 16, &ret->caps[i]);
	if (r == 0)
		r = read_number(text, "Uid:", 10, &uid);
	if (r == 0)
		r = read_number(text, "Gid:", 10, &gid);
	if (r == 0)
		r = read_number(text, "NoNewPrivs:", 10, &privs);
	if (r == 0)
		r = read_number(text, "Seccomp:", 10, &mode);
	if (r == 0)
		r = read_number(text, "Seccomp_filters:", 10, &filters);
	if (r < 0)
		return r;
	ret->uid = (uint32_t)uid - first_id; /* of a stranger: far above what a guest has */
	ret->gid = (uint32_t)gid - first_id;
	ret->is_no_new_privs = (uint32_t)privs;
	ret->filters = mode == MODE_FILTER ? (uint32_t)filters : 0;
	return 0;
}

int confinement_read_process(pid_t pid, uint32_t first_id, struct buf *ret, struct err *err)
{
	auto_dir struct dir_reader tasks = {.fd = -1};
	const char *name;
	char path[64], text[STATUS_SIZE];
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	r = dir_open(&tasks, AT_FDCWD, path);
	while (r == 0 && (name = dir_next(&tasks))) {
		struct confinement w = {0};

		(void)snprintf(path, sizeof(path), "/proc/%d/task/%.16s/status", (int)pid, name);
		r = fd_read_file(AT_FDCWD, path, text, sizeof(text));
		if (r >= 0 && is_dead(text)) {
			r = 0;
			continue;
		}
		if (r >= 0)
			r = parse_status(text, first_id, &w);
		if (r == 0)
			r = buf_append(ret, &w, sizeof(w));
	}
	if (r >= 0)
		r = tasks.error;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot read what holds process %d", (int)pid)
	             : 0;
}

static int read_inode(pid_t pid, const char *ns, uint64_t *ret)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, ns);
	if (stat(path, &st) < 0)
		return -errno;
	*ret = st.st_ino;
	return 0;
}

static bool is_dead_process(pid_t pid)
{
	char path[64], text[STATUS_SIZE];

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0 || is_dead(text);
}

/* Calls fn for each living process in the pid namespace of pid. */
static int each_process(pid_t pid, int (*fn)(pid_t one, void *arg, struct err *err), void *arg,
                        struct err *err)
{
	auto_dir struct dir_reader all = {.fd = -1};
	uint64_t theirs = 0, one = 0;
	const char *name;
	int r = read_inode(pid, "pid", &theirs);

	if (r == 0)
		r = dir_open(&all, AT_FDCWD, "/proc");
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot look for the guest's processes");
	while (r == 0 && (name = dir_next(&all))) {
		long number = strtol(name, NULL, 10);

		if (number > 0 && read_inode((pid_t)number, "pid", &one) == 0 && one == theirs &&
		    !is_dead_process((pid_t)number))
			r = fn((pid_t)number, arg, err);
	}
	if (r == 0 && all.error < 0)
		r = err_set(err, ERR_INTERNAL, -all.error, "cannot list the guest's processes");
	return r;
}

struct reading {
	uint32_t first_id;
	struct buf *ret;
};

static int read_one(pid_t pid, void *arg, struct err *err)
{
	const struct reading *reading = arg;

	return confinement_read_process(pid, reading->first_id, reading->ret, err);
}

int confinement_read(pid_t pid, uint32_t first_id, struct buf *ret, struct err *err)
{
	struct reading reading = {first_id, ret};

	return each_process(pid, read_one, &reading, err);
}

static const struct confinement *find(const struct buf *all, int32_t tid)
{
	const struct confinement *rows = (const void *)all->data;

	for (size_t i = 0; i < all->len / sizeof(*rows); i++)
		if (rows[i].tid == tid)
			return &rows[i];
	return NULL;
}

static int compare_one(const struct confinement *was, const struct confinement *is, struct err *err)
{
	if (!was)
		return err_set(err, ERR_INTERNAL, EPERM, "thread %d was not there", (int)is->tid);
	if (!is->is_no_new_privs)
		return err_set(err, ERR_INTERNAL, EPERM, "thread %d lacks no_new_privs",
		               (int)is->tid);
	if (is->filters == 0 || is->filters < was->filters)
		return err_set(err, ERR_INTERNAL, EPERM, "thread %d has %u of %u filters",
		               (int)is->tid, is->filters, was->filters);
	if (is->uid != was->uid || is->gid != was->gid || is->uid >= NAMESPACES_IDS_EACH ||
	    is->gid >= NAMESPACES_IDS_EACH)
		return err_set(err, ERR_INTERNAL, EPERM, "thread %d is somebody else",
		               (int)is->tid);
	for (size_t i = 0; i < ARRAY_SIZE(is->caps); i++)
		if (is->caps[i] & ~was->caps[i])
			return err_set(err, ERR_INTERNAL, EPERM,
			               "thread %d has capabilities %" PRIx64 " more", (int)is->tid,
			               is->caps[i] & ~was->caps[i]);
	return 0;
}

int confinement_compare(const struct buf *original, const struct buf *copy, struct err *err)
{
	const struct confinement *rows = (const void *)copy->data;
	size_t n = copy->len / sizeof(*rows);

	if (n == 0)
		return err_set(err, ERR_INTERNAL, ESRCH, "the copy has no process");
	for (size_t i = 0; i < n; i++) {
		int r = compare_one(find(original, rows[i].tid), &rows[i], err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int check_namespaces(pid_t pid, const struct confinement_around *around, struct err *err)
{
	static const char *const kinds[] = {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		uint64_t ours, first, theirs;

		if (read_inode(getpid(), kinds[i], &ours) < 0 ||
		    read_inode(around->pid, kinds[i], &first) < 0 ||
		    read_inode(pid, kinds[i], &theirs) < 0)
			return err_set(err, ERR_INTERNAL, EPERM, "a namespace cannot be looked at");
		if (theirs == ours || theirs != first)
			return err_set(err, ERR_INTERNAL, EPERM,
			               "process %d is in the wrong %s namespace", (int)pid,
			               kinds[i]);
		if (strcmp(kinds[i], "net") == 0 && theirs != around->net_inode)
			return err_set(err, ERR_INTERNAL, EPERM, "process %d has another's network",
			               (int)pid);
	}
	return 0;
}

static size_t count_lines_with(const char *text, const char *word)
{
	size_t n = 0;

	for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
		n++;
	return n;
}

/* The first process may be outside `user`, which is for all others. */
static int check_groups(pid_t pid, const struct confinement_around *around, struct err *err)
{
	char path[64], text[GROUPS_SIZE], group[256];
	size_t n;
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	r = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	(void)snprintf(group, sizeof(group), "%s%s", around->group,
	               pid == around->pid ? "" : "/user");
	n = r < 0 ? 0 : count_lines_with(text, group);
	if (n != around->n_trees)
		return err_set(err, ERR_INTERNAL, EPERM,
		               "process %d is in %zu of %zu control groups", (int)pid, n,
		               around->n_trees);
	return 0;
}

static int check_one(pid_t pid, void *arg, struct err *err)
{
	const struct confinement_around *around = arg;
	int r = check_namespaces(pid, around, err);

	return r < 0 ? r : check_groups(pid, around, err);
}

static int check_map(pid_t pid, const char *name, uint32_t first_id)
{
	char path[64], text[512];
	unsigned inside, outside, n;
	int len;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	len = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	if (len < 0 || strchr(text, '\n') || sscanf(text, "%u %u %u", &inside, &outside, &n) != 3)
		return -EPERM;
	return inside == 0 && outside == first_id && n == NAMESPACES_IDS_EACH ? 0 : -EPERM;
}

int confinement_check_around(const struct confinement_around *around, struct err *err)
{
	struct confinement_around copy = *around;

	if (check_map(around->pid, "uid_map", around->first_id) < 0 ||
	    check_map(around->pid, "gid_map", around->first_id) < 0)
		return err_set(err, ERR_INTERNAL, EPERM, "its range of ids is not its own");
	return each_process(around->pid, check_one, &copy, err);
}
