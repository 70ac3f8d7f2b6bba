// SPDX-License-Identifier: Apache-2.0
/*
 * What is read of /proc is the kernel's word about a process that cannot gain anything any more:
 * under no_new_privs, without a capability and without a right to another namespace it stays what
 * it is seen to be.
 */
#include "agent/process/zygote_arrival.h"

#include "agent/process/exec.h"
#include "agent/process/launch.h"
#include "agent/users/user.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/parse.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FDS_MOST   4 /* the knock, and 0, 1 and 2 */
#define STATUS_MAX 8192
#define NO_CAPS    "0000000000000000"

static const char *const namespaces[] = {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"};

static const struct {
	const char *name, *value;
} walls[] = {
	{"PPid", "1"},       {"TracerPid", "0"},  {"Threads", "1"},    {"CapInh", NO_CAPS},
	{"CapPrm", NO_CAPS}, {"CapEff", NO_CAPS}, {"CapBnd", NO_CAPS}, {"CapAmb", NO_CAPS},
	{"NoNewPrivs", "1"}, {"Seccomp", "2"},
};

/* The value behind "NAME:" of a status, blanks at both ends cut. False: there is no such line. */
static bool find_value(const char *text, const char *name, char *ret, size_t size)
{
	size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		size_t n;

		line += *line == '\n';
		if (strncmp(line, name, len) != 0 || line[len] != ':')
			continue;
		line += len + 1;
		line += strspn(line, " \t");
		n = strcspn(line, "\n");
		while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
			n--;
		(void)snprintf(ret, size, "%.*s", (int)n, line);
		return true;
	}
	return false;
}

static uint64_t count_filters(const char *status)
{
	char value[32];
	uint64_t n = 0;

	if (!find_value(status, "Seccomp_filters", value, sizeof(value)) ||
	    parse_u64(value, UINT32_MAX, &n) < 0)
		return UINT64_MAX; /* a kernel that does not say: 5.9 and later do */
	return n;
}

static bool is_group_of(const struct identity *id, gid_t gid)
{
	for (size_t i = 0; i < id->n_groups; i++)
		if (id->groups[i] == gid)
			return true;
	return gid == id->gid;
}

/* Numbers parted by blanks, each a group of his. */
static bool are_groups_of(const struct identity *id, const char *text)
{
	for (const char *p = text; *p;) {
		size_t len = strcspn(p, " ");
		char word[16];
		uint64_t gid;

		(void)snprintf(word, sizeof(word), "%.*s", (int)MIN(len, sizeof(word) - 1), p);
		if (parse_u64(word, UINT32_MAX, &gid) < 0 || !is_group_of(id, (gid_t)gid))
			return false;
		p += len + strspn(p + len, " ");
	}
	return true;
}

/* It is the sandbox's default user, with no group that he has not. */
static int check_identity(const char *status, struct err *err)
{
	char uids[48], gids[48], value[512] = "";
	struct identity id;
	int r = identity_find("", &id, err);

	if (r < 0)
		return r;
	(void)snprintf(uids, sizeof(uids), "%u\t%u\t%u\t%u", id.uid, id.uid, id.uid, id.uid);
	(void)snprintf(gids, sizeof(gids), "%u\t%u\t%u\t%u", id.gid, id.gid, id.gid, id.gid);
	if (!find_value(status, "Uid", value, sizeof(value)) || strcmp(value, uids) != 0)
		return err_set(err, ERR_FORBIDDEN, EPERM, "its Uid is '%s'", value);
	if (!find_value(status, "Gid", value, sizeof(value)) || strcmp(value, gids) != 0)
		return err_set(err, ERR_FORBIDDEN, EPERM, "its Gid is '%s'", value);
	if (!find_value(status, "Groups", value, sizeof(value)) || !are_groups_of(&id, value))
		return err_set(err, ERR_FORBIDDEN, EPERM, "its Groups is '%s'", value);
	return 0;
}

static int check_status(int dir_fd, int own_fd, struct err *err)
{
	char theirs[STATUS_MAX], ours[STATUS_MAX], value[128];

	if (fd_read_file(dir_fd, "status", theirs, sizeof(theirs)) < 0 ||
	    fd_read_file(own_fd, "status", ours, sizeof(ours)) < 0)
		return err_set(err, ERR_INTERNAL, ESRCH, "it has ended");
	for (size_t i = 0; i < ARRAY_SIZE(walls); i++)
		if (!find_value(theirs, walls[i].name, value, sizeof(value)) ||
		    strcmp(value, walls[i].value) != 0)
			return err_set(err, ERR_FORBIDDEN, EPERM, "its %s is '%s'", walls[i].name,
			               value);
	if (check_identity(theirs, err) < 0)
		return -EPERM;
	/* The zygote's own filter stands for ours; the second takes from it what ours forbids. */
	if (count_filters(ours) != UINT64_MAX && count_filters(theirs) <= count_filters(ours))
		return err_set(err, ERR_FORBIDDEN, EPERM, "it lacks a filter");
	return 0;
}

static int check_same(int dir_fd, int own_fd, const char *name, struct err *err)
{
	struct stat theirs, ours;

	if (fstatat(dir_fd, name, &theirs, 0) < 0 || fstatat(own_fd, name, &ours, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot look at its %s", name);
	if (theirs.st_dev != ours.st_dev || theirs.st_ino != ours.st_ino)
		return err_set(err, ERR_FORBIDDEN, EPERM, "its %s is another", name);
	return 0;
}

static int check_places(int dir_fd, int own_fd, struct err *err)
{
	int r = check_same(dir_fd, own_fd, "root", err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(namespaces); i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "ns/%s", namespaces[i]);
		r = check_same(dir_fd, own_fd, name, err);
	}
	return r;
}

/* "NUMBER:CONTROLLERS:PATH" a line. `user` is beside the agent's own group, or below it. */
static int check_groups(int dir_fd, const struct settings *settings, struct err *err)
{
	static const char *const paths[] = {":/user\n", ":/../user\n"};
	char text[STATUS_MAX];
	size_t n = 0;
	int len = fd_read_file(dir_fd, "cgroup", text, sizeof(text) - 1);

	if (len < 0)
		return err_set(err, ERR_INTERNAL, ESRCH, "it has ended");
	(void)snprintf(text + len, 2, "\n"); /* which was cut */
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		for (const char *at = text; (at = strstr(at, paths[i])); at++)
			n++;
	if (n != settings->n_cgroup_fds)
		return err_set(err, ERR_FORBIDDEN, EPERM, "it is in %zu of %zu cgroups", n,
		               settings->n_cgroup_fds);
	return 0;
}

static int check_fds(int dir_fd, const struct settings *settings, struct err *err)
{
	static const char line[] = "Max open files";
	auto_fd int fd = openat(dir_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char limits[4096];
	const char *at;
	unsigned long long most = 0;
	struct dir_reader dir;
	size_t n = 0;

	if (fd < 0 || dir_begin(&dir, fd) < 0 ||
	    fd_read_file(dir_fd, "limits", limits, sizeof(limits)) < 0)
		return err_set(err, ERR_INTERNAL, ESRCH, "cannot look at its fds");
	while (dir_next(&dir))
		n++;
	if (dir.error < 0)
		return err_set(err, ERR_INTERNAL, -dir.error, "cannot list its fds");
	if (n > FDS_MOST)
		return err_set(err, ERR_FORBIDDEN, EPERM, "it has %zu fds", n);
	at = strstr(limits, line);
	if (settings->open_files > 0 && (!at || sscanf(at + strlen(line), "%*s %llu", &most) != 1 ||
	                                 most > settings->open_files))
		return err_set(err, ERR_FORBIDDEN, EPERM, "it may open %llu files", most);
	return 0;
}

static int check(const struct settings *settings, pid_t pid, struct err *err)
{
	char path[32];
	auto_fd int dir_fd = -1, own_fd = -1;
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	own_fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0 || own_fd < 0)
		return err_set(err, ERR_INTERNAL, ESRCH, "it has ended");
	r = check_status(dir_fd, own_fd, err);
	if (r == 0)
		r = check_places(dir_fd, own_fd, err);
	if (r == 0)
		r = check_groups(dir_fd, settings, err);
	return r < 0 ? r : check_fds(dir_fd, settings, err);
}

/* u32 length, then words that each end in NUL but the last: the directory, the mark, the rest. */
static int make_welcome(const struct start *s, struct buf *out)
{
	auto_free char *mark = xasprintf("CLOCHE_EXEC=%s", s->tag);
	uint32_t len = 0;
	int r = buf_append(out, &len, sizeof(len));

	if (r >= 0)
		r = buf_append(out, s->cwd, strlen(s->cwd) + 1);
	if (r >= 0)
		r = buf_append(out, mark, strlen(mark));
	for (size_t i = 0; r >= 0 && i < s->envc; i++) {
		r = buf_append(out, "", 1);
		if (r >= 0)
			r = buf_append(out, s->env[i], strlen(s->env[i]));
	}
	if (r < 0)
		return r;
	len = (uint32_t)(out->len - sizeof(len));
	memcpy(out->data, &len, sizeof(len));
	return 0;
}

int zygote_arrival_expect(struct channel *c, const struct start *s, int imprint_fd, struct err *err)
{
	struct launched l;
	int r = make_welcome(s, &c->welcome);

	c->theirs[LAUNCH_SOCKET_FD + 1] = imprint_fd;
	if (s->kind == START_COPIED && imprint_fd < 0)
		return err_set(err, ERR_GUEST, EBADF, "no imprint came with it");
	if (r < 0)
		return err_set(err, ERR_LIMIT, -r, "its environment is too long for a fork");
	r = launch_without_fork(c->agent, s, &l, c->theirs, err);
	if (r < 0)
		return r;
	c->is_awaited = true;
	return channel_open(c, &l, s);
}

void zygote_arrival_give_up(struct channel *c)
{
	c->is_awaited = false;
	for (size_t i = 0; i < ARRAY_SIZE(c->theirs); i++)
		if (c->theirs[i] >= 0)
			(void)close(take_fd(&c->theirs[i]));
	buf_done(&c->welcome);
}

static struct channel *find_awaited(struct agent *a, const char *tag)
{
	list_for_each (&a->channels, struct channel, c, link)
		if (c->is_awaited && !c->is_forgotten && strcmp(c->tag, tag) == 0)
			return c;
	return NULL;
}

bool zygote_arrival_knock(struct agent *a, const char *tag, int fd, pid_t pid)
{
	struct channel *c = find_awaited(a, tag);
	struct err err;
	size_t n;
	int r;

	if (!c)
		return false;
	n = ARRAY_SIZE(c->theirs) - (c->theirs[LAUNCH_SOCKET_FD + 1] < 0);
	r = pid > 1 ? check(&a->settings, pid, &err)
	            : err_set(&err, ERR_FORBIDDEN, EPERM, "it is not of this sandbox");
	if (r == 0 &&
	    fd_send(fd, c->welcome.data, c->welcome.len, c->theirs, n) != (ssize_t)c->welcome.len)
		r = err_set(&err, ERR_INTERNAL, EPIPE, "it does not take its fds");
	if (r < 0 && pid > 1)
		(void)kill(pid, SIGKILL);
	zygote_arrival_give_up(c);
	channel_arrived(c, r < 0 ? 0 : pid, r < 0 ? &err : NULL);
	return true;
}
