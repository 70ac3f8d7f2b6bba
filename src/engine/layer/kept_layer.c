// SPDX-License-Identifier: Apache-2.0
#include "engine/layer/kept_layer.h"

#include "base/fd.h"
#include "base/parse.h"
#include "engine/linux/dir_tree.h"
#include "engine/linux/syscalls.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#define MARK      "keeper"
#define MARK_SIZE 32

int kept_layer_mark(int layer_fd, uint64_t keeper, struct err *err)
{
	char text[MARK_SIZE];
	int len = snprintf(text, sizeof(text), "%" PRIu64, keeper);
	int r = fd_replace_file(layer_fd, MARK, text, (size_t)len, 0600, /* sync= */ false);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot mark the sandbox's layer") : 0;
}

static int absent_or(int error)
{
	return error == ENOENT ? 0 : -error;
}

static int open_layer(const struct storage *s, const char *id)
{
	return openat(s->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int kept_layer_read(const struct storage *s, const char *id, uint64_t *ret)
{
	auto_fd int fd = open_layer(s, id);
	char text[MARK_SIZE];
	int r;

	if (fd < 0)
		return absent_or(errno);
	r = fd_read_file(fd, MARK, text, sizeof(text));
	if (r < 0)
		return absent_or(-r);
	if (parse_u64(text, UINT64_MAX, ret) < 0 || *ret == 0)
		*ret = UINT64_MAX;
	return 1;
}

int kept_layer_drop(const struct storage *s, const char *id)
{
	auto_fd int fd = open_layer(s, id);

	if (fd < 0)
		return absent_or(errno);
	return unlinkat(fd, MARK, 0) < 0 ? absent_or(errno) : 0;
}

int kept_layer_reopen(const struct storage *s, const char *id, uint64_t disk_bytes, int *ret_fd,
                      struct err *err)
{
	auto_fd int fd = -1;
	uint64_t keeper;
	int r = kept_layer_read(s, id, &keeper);

	if (r == 0)
		return err_set(err, ERR_NOT_FOUND, ENOENT, "no files were kept of '%s'", id);
	fd = r > 0 ? open_layer(s, id) : -1;
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, r < 0 ? -r : errno,
		               "cannot open the files that were kept of '%s'", id);
	r = storage_limit(s, id, disk_bytes, err);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

int kept_layer_sync_start(const struct storage *s, int *ret_pidfd)
{
	struct clone_args args = {.flags = CLONE_PIDFD,
	                          .exit_signal = SIGCHLD,
	                          .pidfd = (uint64_t)(uintptr_t)ret_pidfd};
	pid_t pid = sys_clone3(&args);

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(syncfs(s->fd) == 0 ? 0 : 1);
	return 1;
}

struct visit {
	const struct storage *storage;
	void (*fn)(const char *id, uint64_t keeper, void *arg);
	void *arg;
};

static void visit_id(const char *id, void *arg)
{
	const struct visit *v = arg;
	uint64_t keeper = UINT64_MAX;

	if (kept_layer_read(v->storage, id, &keeper) != 0)
		v->fn(id, keeper, v->arg);
}

void kept_layer_each(const struct storage *s,
                     void (*fn)(const char *id, uint64_t keeper, void *arg), void *arg)
{
	struct visit v = {s, fn, arg};

	dir_tree_each_id(s->fd, visit_id, &v);
}
