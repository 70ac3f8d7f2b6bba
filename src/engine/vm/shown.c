// SPDX-License-Identifier: Apache-2.0
/*
 * The time for a clone depends on how fragmented the disk is, which its guest controls. So a child
 * makes the clones, and the start waits.
 */
#include "engine/vm/shown.h"

#include "engine/guest/disk_snapshot.h"
#include "engine/guest/disk_snapshot_private.h"
#include "engine/vm/disk.h"
#include "engine/vm/start.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define NAME_SIZE 32

size_t shown_count(const struct guest_spec *spec)
{
	size_t n = 0;

	while (n < SHOWN_MAX && spec->shown[n][0])
		n++;
	return n;
}

static void name_of(size_t i, char ret[NAME_SIZE])
{
	(void)snprintf(ret, NAME_SIZE, "shown%zu", i);
}

static int open_saved(struct guest_host *host, const struct guest_spec *spec, size_t i, int *ret_fd,
                      struct err *err)
{
	auto_fd int files_fd = -1;
	int r = disk_snapshot_open_files(host, spec->shown[i], &spec->image, &files_fd, err);

	return r < 0 ? r : disk_open_saved(files_fd, ret_fd, err);
}

/* The kernel that reads a disk may rewrite all of it. */
static int raise_limit(struct guest_host *host, const struct guest_spec *spec, const int *fds,
                       size_t n, struct err *err)
{
	uint64_t bytes = disk_snapshot_limit(host, spec);

	for (size_t i = 0; i < n; i++) {
		struct stat st;

		if (fstat(fds[i], &st) < 0)
			return err_set(err, ERR_INTERNAL, errno,
			               "cannot look at a snapshot's disk");
		bytes += (uint64_t)st.st_size + DISK_SLACK_BYTES;
	}
	return storage_limit(&host->storage, spec->id, bytes, err);
}

/* In the child: an errno for its exit status. */
static int clone_all(struct guest_host *host, const int *fds, size_t n, int layer_fd)
{
	for (size_t i = 0; i < n; i++) {
		char name[NAME_SIZE];
		int r;

		name_of(i, name);
		r = disk_clone(&host->storage, fds[i], layer_fd, name);
		if (r < 0)
			return -r;
	}
	return 0;
}

static void on_cloned(struct loop *loop, int wait_status, void *arg)
{
	struct guest *g = arg;
	int error = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : EIO;
	struct err err;

	(void)loop;
	if (!guest_take_worker(g))
		return;
	if (error)
		(void)err_set(&err,
		              error == ENOSPC || error == EDQUOT ? ERR_HOST_DISK_FULL
		                                                 : ERR_INTERNAL,
		              error, "cannot copy the disks of snapshots");
	guest_on_cloned(g, error ? &err : NULL);
}

static int begin(struct start *s, const int *fds, size_t n, struct err *err)
{
	struct guest *g = s->g;
	int pidfd = -1, r;
	pid_t pid = disk_snapshot_fork(&pidfd);

	if (pid == 0)
		_exit(clone_all(s->g->host, fds, n, s->layer_fd));
	if (pid < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a child");
	r = loop_child_take(s->g->host->loop, pidfd, on_cloned, g, &g->worker);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch a child") : 1;
}

static int open_clones(struct start *s, size_t n, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		char name[NAME_SIZE];

		name_of(i, name);
		r = disk_open_clone(s->layer_fd, name, &s->own_fds[START_SHOWN + i], err);
	}
	return r;
}

int shown_clone(struct start *s, struct err *err)
{
	const struct guest_spec *spec = &s->g->spec;
	const size_t n = shown_count(spec);
	int fds[SHOWN_MAX], r = 0;
	size_t opened = 0;

	if (s->has_shown || n == 0)
		return open_clones(s, n, err);
	for (; r == 0 && opened < n; opened += r == 0)
		r = open_saved(s->g->host, spec, opened, &fds[opened], err);
	if (r == 0)
		r = raise_limit(s->g->host, spec, fds, n, err);
	if (r == 0)
		r = begin(s, fds, n, err);
	s->has_shown = r == 1;
	for (size_t i = 0; i < opened; i++)
		(void)close(fds[i]);
	return r;
}
