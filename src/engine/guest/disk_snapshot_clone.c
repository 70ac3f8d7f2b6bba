// SPDX-License-Identifier: Apache-2.0
/*
 * Starting from a snapshot is one ioctl that copies its subvolume. It runs in a child, since it
 * waits for a transaction of the filesystem. Any number of copies at once can share a transaction,
 * but not in one directory: the ioctl locks the directory of the copy until the transaction is
 * written, so everybody who makes or removes a layer there would wait. So each copy is made and
 * prepared in its own directory, and then moved to the layers. A kept layer is replaced in one
 * step: the two are exchanged. Overlay's work directories must be empty, since the kernel does not
 * mount those of a `volatile` mount again. For the copies of a fork they are emptied once, in the
 * snapshot, and a child that costs less makes each of them (engine/layer/layer_copy.h).
 */
#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/log.h"
#include "engine/guest/disk_snapshot.h"
#include "engine/guest/disk_snapshot_private.h"
#include "engine/layer/kept_layer.h"
#include "engine/layer/layer_copy.h"
#include "engine/linux/btrfs.h"
#include "engine/linux/dir_tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static bool is_empty(int layer_fd, const char *name)
{
	auto_dir struct dir_reader dir = {.fd = -1};

	return dir_open(&dir, layer_fd, name) == 0 && !dir_next(&dir) && dir.error == 0;
}

int disk_snapshot_tidy(int layer_fd)
{
	static const char *const work[] = {"root.work", "usr.work"};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(work); i++) {
		if (is_empty(layer_fd, work[i]))
			continue;
		r = dir_tree_remove(layer_fd, work[i]);
		if (r == 0 && mkdirat(layer_fd, work[i], 0755) < 0)
			r = -errno;
	}
	return r;
}

static struct disk_snapshot_below make_below(uint64_t bytes)
{
	struct disk_snapshot_below below = {.bytes = bytes};

	random_bytes(&below.line, sizeof(below.line));
	below.line = below.line >> 2 | 1; /* a number in JSON, and not the first one's */
	return below;
}

/* Written in place: nobody sees the layer before it is complete. */
static int write_below(int layer_fd, uint64_t bytes)
{
	const struct disk_snapshot_below below = make_below(bytes);
	auto_fd int fd = openat(layer_fd, DISK_SNAPSHOT_BELOW,
	                        O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd_write_all(fd, &below, sizeof(below));
}

int disk_snapshot_set_up(const struct guest *g, const struct snapshot_info *info, int fd)
{
	const struct guest_spec *spec = &g->spec;
	int r = disk_snapshot_tidy(fd);

	if (r == 0)
		r = write_below(fd, info->bytes);
	if (r == 0 && spec->keeper)
		r = kept_layer_mark(fd, spec->keeper, NULL);
	else if (r == 0 && unlinkat(fd, "keeper", 0) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

/* Makes the copy as DISK_SNAPSHOT_FILES in place_fd, and gives it the sandbox's name. */
static int clone_in(const struct guest *g, const struct snapshot_info *info, int files_fd,
                    int place_fd)
{
	const unsigned how = g->spec.is_resumed ? RENAME_EXCHANGE : RENAME_NOREPLACE;
	auto_fd int fd = -1;
	int r = btrfs_clone(place_fd, files_fd, DISK_SNAPSHOT_FILES);

	if (r < 0)
		return r;
	fd = disk_snapshot_open_dir(place_fd, DISK_SNAPSHOT_FILES);
	r = fd < 0 ? -errno : disk_snapshot_set_up(g, info, fd);
	if (r == 0 &&
	    renameat2(place_fd, DISK_SNAPSHOT_FILES, g->host->storage.fd, g->spec.id, how) < 0)
		r = -errno;
	return r;
}

/* In the child: an errno for its exit status. */
static int run_cloning(const struct guest *g, const struct snapshot_info *info)
{
	int storage_fd = g->host->storage.fd;
	auto_fd int dir_fd = disk_snapshot_open_dir(storage_fd, info->id);
	auto_fd int files_fd =
		dir_fd < 0 ? -1 : disk_snapshot_open_dir(dir_fd, DISK_SNAPSHOT_FILES);
	auto_fd int place_fd = -1;
	int r;

	if (files_fd < 0)
		return errno;
	if (mkdirat(storage_fd, g->place, 0700) < 0)
		return errno;
	place_fd = disk_snapshot_open_dir(storage_fd, g->place);
	r = place_fd < 0 ? -errno : clone_in(g, info, files_fd, place_fd);
	disk_snapshot_remove_dir(
		g->host,
		g->place); /* with a copy that failed, or with the layer that it replaced */
	return -r;
}

static void tell_cloned(struct guest *g, int error)
{
	struct err err;

	if (!guest_take_worker(g))
		return;
	if (error)
		(void)err_set(&err,
		              error == ENOSPC || error == EDQUOT ? ERR_HOST_DISK_FULL
		              : error == ENOENT                  ? ERR_NOT_FOUND
		                                                 : ERR_INTERNAL,
		              error, "cannot copy the files of snapshot %s", g->spec.snapshot);
	g->cloned(g, error ? &err : NULL);
}

static void on_cloned(struct loop *loop, int wait_status, void *arg)
{
	struct guest *g = arg;

	(void)loop;
	if (!WIFEXITED(wait_status)) /* a child that was killed leaves its place */
		disk_snapshot_remove_dir(g->host, g->place);
	tell_cloned(g, WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : EIO);
}

/* A child that cannot be watched was killed, perhaps with a copy in its place. */
static int watch(struct guest *g, int pidfd, loop_child_fn fn, struct err *err)
{
	int r = loop_child_take(g->host->loop, pidfd, fn, g, &g->worker);

	if (r == 0)
		return 0;
	disk_snapshot_remove_dir(g->host, g->place);
	return err_set(err, ERR_INTERNAL, -r, "cannot watch a child");
}

/* In a child that is a fork of ours. */
static int start_fork(struct guest *g, const struct snapshot_info *info, struct err *err)
{
	int pidfd = -1;
	pid_t pid = disk_snapshot_fork(&pidfd);

	if (pid == 0)
		_exit(run_cloning(g, info));
	if (pid < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a child");
	return watch(g, pidfd, on_cloned, err);
}

/* One that is untidy is made anew, and tidied. */
static void on_copied(struct loop *loop, int wait_status, void *arg)
{
	struct guest *g = arg;
	int error = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : EIO;
	const struct snapshot_info *info = disk_snapshot_find(g->spec.snapshot);
	struct err err;

	(void)loop;
	if (error)
		disk_snapshot_remove_dir(g->host, g->place);
	if (error == LAYER_COPY_UNTIDY && g->state == GUEST_STARTING && info &&
	    start_fork(g, info, &err) == 0)
		return;
	tell_cloned(g, error);
}

/* Returns 1 if a child has begun that costs little: for a fork's layer, which is new and tidy. */
static int start_copy(struct guest *g, const struct snapshot_info *info, struct err *err)
{
	auto_fd int dir_fd = disk_snapshot_open_dir(g->host->storage.fd, info->id);
	auto_fd int files_fd =
		dir_fd < 0 ? -1 : disk_snapshot_open_dir(dir_fd, DISK_SNAPSHOT_FILES);
	const struct layer_copy copy = {.layers_fd = g->host->storage.fd,
	                                .files_fd = files_fd,
	                                .place = g->place,
	                                .name = DISK_SNAPSHOT_FILES,
	                                .id = g->spec.id,
	                                .below = make_below(info->bytes)};
	int pidfd = -1, r;

	if (!disk_snapshot_is_brief(info->id) || g->spec.is_resumed || g->spec.keeper ||
	    files_fd < 0 || layer_copy_start(&copy, &pidfd) == 0)
		return 0;
	r = watch(g, pidfd, on_copied, err);
	return r < 0 ? r : 1;
}

int disk_snapshot_clone(struct guest *g, void (*done)(struct guest *g, const struct err *err),
                        struct err *err)
{
	const struct snapshot_info *s = disk_snapshot_find(g->spec.snapshot);
	int r;

	if (!s)
		return err_set(err, ERR_NOT_FOUND, ENOENT, "there is no snapshot %s",
		               g->spec.snapshot);
	if (!digest_equal(&s->image, &g->spec.image))
		return err_set(err, ERR_CONFLICT, EINVAL, "snapshot %s is over another template",
		               g->spec.snapshot);
	if (disk_snapshot_take_spare(g, s) == 0)
		return 1;
	id_make(g->place, "roll");
	g->cloned = done;
	r = start_copy(g, s, err);
	return r == 0 ? start_fork(g, s, err) : MIN(r, 0);
}

int disk_snapshot_open_clone(const struct guest *g, int *ret_fd, struct err *err)
{
	const struct guest_spec *spec = &g->spec;
	auto_fd int fd = disk_snapshot_open_dir(g->host->storage.fd, spec->id);
	int r;

	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the sandbox's layer");
	r = storage_limit(&g->host->storage, spec->id, disk_snapshot_limit(g->host, spec), err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int disk_snapshot_open_files(struct guest_host *host, const char *id, const struct digest *image,
                             int *ret_fd, struct err *err)
{
	const struct snapshot_info *s = disk_snapshot_find(id);
	auto_fd int dir_fd = s ? disk_snapshot_open_dir(host->storage.fd, id) : -1;
	auto_fd int fd = dir_fd < 0 ? -1 : disk_snapshot_open_dir(dir_fd, DISK_SNAPSHOT_FILES);

	if (!s)
		return err_set(err, ERR_NOT_FOUND, ENOENT, "there is no snapshot %s", id);
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the files of snapshot %s",
		               id);
	if (!digest_equal(&s->image, image))
		return err_set(err, ERR_CONFLICT, EINVAL, "snapshot %s is over another template",
		               id);
	*ret_fd = take_fd(&fd);
	return 0;
}

int disk_snapshot_open_memory(struct guest_host *host, const char *id, int *ret_fd, struct err *err)
{
	auto_fd int dir_fd = disk_snapshot_open_dir(host->storage.fd, id);
	auto_fd int fd = dir_fd < 0 ? -1 : disk_snapshot_open_dir(dir_fd, DISK_SNAPSHOT_MEMORY);

	if (fd < 0 && errno == ENOENT)
		return err_set(err, ERR_CONFLICT, ENOENT, "snapshot %s has no memory", id);
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the memory of snapshot %s",
		               id);
	*ret_fd = take_fd(&fd);
	return 0;
}
