// SPDX-License-Identifier: Apache-2.0
/*
 * The tree is read from /proc anew each time. Between reading and signalling a pid may change
 * hands: so a pidfd is opened, and the process's own /proc directory, opened before, must still
 * answer afterwards.
 *
 * A leader's pid is not given to another process while its session has members. Once both are gone
 * the pid may be given away. So a dead leader's session counts only while no process has its
 * number.
 */
#include "agent/process/process_tree.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/parse.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define ENVIRON_MAX (256 * 1024) /* how far into an environment the mark is looked for */
#define STOP_ROUNDS 32

struct process {
	pid_t pid, ppid, sid;
	bool is_ours;
};

struct processes {
	struct process *all;
	size_t n, size;
};

static void processes_done(struct processes *ps)
{
	free(ps->all);
}

static int open_process(pid_t pid)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
}

/* "PID (NAME) STATE PPID PGRP SESSION …", where NAME may hold anything, parentheses too. */
static bool read_stat(int dir_fd, struct process *ret)
{
	char text[512];
	const char *at;
	int ppid, pgrp, sid;
	char state;

	if (fd_read_file(dir_fd, "stat", text, sizeof(text)) < 0)
		return false;
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %c %d %d %d", &state, &ppid, &pgrp, &sid) != 4)
		return false;
	ret->ppid = ppid;
	ret->sid = sid;
	return state != 'Z' && state != 'X';
}

static bool has_mark(int dir_fd, const char *mark)
{
	auto_fd int fd = openat(dir_fd, "environ", O_RDONLY | O_CLOEXEC);
	auto_call(buf_done) struct buf text = BUF_INIT(ENVIRON_MAX);
	size_t mark_len = strlen(mark) + 1; /* its NUL too: no prefix of another tag */
	const char *at;

	if (fd < 0)
		return false;
	for (;;) {
		char *room;
		ssize_t n;

		if (buf_reserve(&text, MIN((size_t)4096, buf_room(&text)), &room) < 0)
			break;
		n = read(fd, room, MIN((size_t)4096, buf_room(&text)));
		if (n <= 0)
			break;
		buf_commit(&text, (size_t)n);
	}
	at = text.len > 0 ? memmem(text.data, text.len, mark, mark_len) : NULL;
	while (at && at != text.data && at[-1] != '\0') {
		size_t left = text.len - (size_t)(at + 1 - text.data);

		at = memmem(at + 1, left, mark, mark_len);
	}
	return at != NULL;
}

static int compare_pids(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void read_all(struct processes *ps)
{
	auto_fd int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dir_reader dir;
	const char *name;

	if (proc_fd < 0 || dir_begin(&dir, proc_fd) < 0)
		return;
	while ((name = dir_next(&dir))) {
		struct process p = {0};
		auto_fd int dir_fd = -1;
		uint64_t pid;

		if (parse_u64(name, INT32_MAX, &pid) < 0 || (pid_t)pid == getpid())
			continue;
		p.pid = (pid_t)pid;
		dir_fd = open_process(p.pid);
		if (dir_fd < 0 || !read_stat(dir_fd, &p))
			continue;
		if (ps->n == ps->size) {
			ps->size = ps->size ? ps->size * 2 : 64;
			ps->all = xrealloc(ps->all, ps->size * sizeof(*ps->all));
		}
		ps->all[ps->n++] = p;
	}
	if (ps->n > 0)
		qsort(ps->all, ps->n, sizeof(*ps->all), compare_pids);
}

static bool is_child_of_ours(const struct processes *ps, const struct process *p)
{
	struct process key = {.pid = p->ppid};
	const struct process *parent =
		ps->n > 0 ? bsearch(&key, ps->all, ps->n, sizeof(key), compare_pids) : NULL;

	return parent && parent->is_ours;
}

static void add_descendants(struct processes *ps)
{
	bool has_grown = true;

	while (has_grown) {
		has_grown = false;
		for (size_t i = 0; i < ps->n; i++) {
			struct process *p = &ps->all[i];

			if (!p->is_ours && is_child_of_ours(ps, p))
				p->is_ours = has_grown = true;
		}
	}
}

static void find_tree(struct processes *ps, pid_t leader, bool leader_lives, const char *tag)
{
	auto_free char *mark = xasprintf("CLOCHE_EXEC=%s", tag);
	bool has_session = true;

	read_all(ps);
	for (size_t i = 0; i < ps->n; i++)
		if (ps->all[i].pid == leader && !leader_lives)
			has_session = false;
	for (size_t i = 0; i < ps->n; i++) {
		struct process *p = &ps->all[i];

		p->is_ours =
			(leader_lives && p->pid == leader) || (has_session && p->sid == leader);
	}
	add_descendants(ps);
	for (size_t i = 0; i < ps->n; i++) {
		auto_fd int dir_fd = ps->all[i].is_ours ? -1 : open_process(ps->all[i].pid);

		if (dir_fd >= 0)
			ps->all[i].is_ours = has_mark(dir_fd, mark);
	}
	add_descendants(ps);
}

static void signal_one(const struct process *p, int signo)
{
	auto_fd int dir_fd = open_process(p->pid);
	auto_fd int pid_fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	struct process again;

	/* Still the one that was judged: same parent or adopted since, same session. */
	if (dir_fd < 0 || pid_fd < 0 || !read_stat(dir_fd, &again) || again.sid != p->sid)
		return;
	(void)syscall(SYS_pidfd_send_signal, pid_fd, signo, NULL, 0);
	if (signo == SIGTERM) /* a stopped process would not hear it */
		(void)syscall(SYS_pidfd_send_signal, pid_fd, SIGCONT, NULL, 0);
}

int process_tree_signal(pid_t leader, bool leader_lives, const char *tag, int signo)
{
	auto_call(processes_done) struct processes ps = {0};
	int n = 0;

	find_tree(&ps, leader, leader_lives, tag);
	for (size_t i = 0; i < ps.n; i++) {
		if (!ps.all[i].is_ours)
			continue;
		signal_one(&ps.all[i], signo);
		n++;
	}
	return n;
}

int process_tree_kill(pid_t leader, bool leader_lives, const char *tag)
{
	int before = -1, n = 0;

	/* What is stopped cannot fork: the count stands still when all are. */
	for (int round = 0; round < STOP_ROUNDS && n != before; round++) {
		before = n;
		n = process_tree_signal(leader, leader_lives, tag, SIGSTOP);
	}
	return n > 0 ? process_tree_signal(leader, leader_lives, tag, SIGKILL) : 0;
}

pid_t process_tree_find_other(const pid_t *known, size_t n)
{
	auto_call(processes_done) struct processes ps = {0};

	read_all(&ps);
	for (size_t i = 0; i < ps.n; i++) {
		bool is_known = false;

		for (size_t k = 0; k < n; k++)
			is_known |= ps.all[i].pid == known[k];
		if (!is_known)
			return ps.all[i].pid;
	}
	return 0;
}
