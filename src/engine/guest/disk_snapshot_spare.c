// SPDX-License-Identifier: Apache-2.0
/*
 * Copies that are made ahead. A start from a snapshot waits for a transaction of the filesystem,
 * which takes as long as all the rest of the start. To avoid that, after each start the next copy
 * is made in the snapshot's own directory, and the next start takes it with a rename. So the first
 * start of a burst, and each of several single starts, is as fast as one from a template. A fork's
 * snapshot has no spare copy, since nobody else starts from it.
 *
 *	making --> ready --> (taken, or dropped for a snapshot that was used later)
 *
 * A spare copy is removed with its snapshot. After a broker's death nobody knows whether a copy is
 * complete, so the next broker removes it. A rollback puts the replaced layer where the copy was,
 * so it cannot use this copy.
 */
#include "base/log.h"
#include "engine/guest/disk_snapshot_private.h"
#include "engine/linux/btrfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SPARES_MAX 32 /* some 50 KiB of metadata each, charged to nobody */

struct spare {
	struct guest_host *host;
	struct list link;         /* the most recently used is last */
	char id[ID_SIZE];         /* of the snapshot */
	struct loop_child *maker; /* or NULL: it is ready */
	bool is_dropped;
};

static struct list spares = LIST_INIT(spares);
static size_t n_spares;

static struct spare *find(const char *id)
{
	list_for_each (&spares, struct spare, s, link)
		if (strcmp(s->id, id) == 0 && !s->is_dropped)
			return s;
	return NULL;
}

static void spare_free(struct spare *s)
{
	list_remove(&s->link);
	n_spares--;
	free(s);
}

int disk_snapshot_remove_spare(int dir_fd)
{
	auto_fd int fd = disk_snapshot_open_dir(dir_fd, DISK_SNAPSHOT_SPARE);
	int r = fd < 0 ? -errno : btrfs_subvol_delete(fd, DISK_SNAPSHOT_FILES);

	return r == -ENOENT ? 0 : r;
}

/* In a child: an exit status. */
static int run_making(struct guest_host *host, const char *id)
{
	auto_fd int dir_fd = disk_snapshot_open_dir(host->storage.fd, id);
	auto_fd int files_fd =
		dir_fd < 0 ? -1 : disk_snapshot_open_dir(dir_fd, DISK_SNAPSHOT_FILES);
	auto_fd int place_fd = -1, fd = -1;

	if (files_fd < 0 || (mkdirat(dir_fd, DISK_SNAPSHOT_SPARE, 0700) < 0 && errno != EEXIST))
		return 1;
	place_fd = disk_snapshot_open_dir(dir_fd, DISK_SNAPSHOT_SPARE);
	if (place_fd < 0 || btrfs_clone(place_fd, files_fd, DISK_SNAPSHOT_FILES) < 0)
		return 1;
	fd = disk_snapshot_open_dir(place_fd, DISK_SNAPSHOT_FILES);
	return fd < 0 || disk_snapshot_tidy(fd) < 0 ? 1 : 0;
}

static void remove_from(struct guest_host *host, const char *id)
{
	auto_fd int dir_fd = disk_snapshot_open_dir(host->storage.fd, id);
	int r = dir_fd < 0 ? 0 : disk_snapshot_remove_spare(dir_fd);

	if (r < 0)
		log_warn("snapshot.spare-stays", "id=%s errno=%d", id, -r);
}

static void on_made(struct loop *loop, int wait_status, void *arg)
{
	struct spare *s = arg;

	(void)loop;
	s->maker = NULL;
	if (wait_status == 0 && !s->is_dropped)
		return;
	if (!s->is_dropped)
		remove_from(s->host, s->id);
	spare_free(s);
}

static bool make_room(struct guest_host *host)
{
	list_for_each (&spares, struct spare, s, link) {
		if (n_spares < SPARES_MAX)
			break;
		if (s->maker)
			continue;
		remove_from(host, s->id);
		spare_free(s);
	}
	return n_spares < SPARES_MAX;
}

void disk_snapshot_want_spare(struct guest_host *host, const char *id)
{
	struct spare *s;
	int pidfd = -1;
	pid_t pid;

	if (!disk_snapshot_find(id) || find(id) || !make_room(host))
		return;
	pid = disk_snapshot_fork(&pidfd);
	if (pid == 0)
		_exit(run_making(host, id));
	if (pid < 0)
		return;
	s = xnew0(struct spare);
	s->host = host;
	memcpy(s->id, id, sizeof(s->id));
	list_append(&spares, &s->link);
	n_spares++;
	if (loop_child_take(host->loop, pidfd, on_made, s, &s->maker) < 0)
		spare_free(s);
}

void disk_snapshot_drop_spare(const char *id)
{
	struct spare *s = find(id);

	if (s && s->maker)
		s->is_dropped = true;
	else if (s)
		spare_free(s);
}

int disk_snapshot_take_spare(const struct guest *g, const struct snapshot_info *info)
{
	struct spare *s = g->spec.is_resumed ? NULL : find(info->id);
	auto_fd int dir_fd = -1, place_fd = -1, fd = -1;
	int r = 0;

	if (!s || s->maker)
		return -ENOENT;
	spare_free(s);
	dir_fd = disk_snapshot_open_dir(g->host->storage.fd, info->id);
	place_fd = dir_fd < 0 ? -1 : disk_snapshot_open_dir(dir_fd, DISK_SNAPSHOT_SPARE);
	fd = place_fd < 0 ? -1 : disk_snapshot_open_dir(place_fd, DISK_SNAPSHOT_FILES);
	r = fd < 0 ? -errno : disk_snapshot_set_up(g, info, fd);
	if (r == 0 && renameat2(place_fd, DISK_SNAPSHOT_FILES, g->host->storage.fd, g->spec.id,
	                        RENAME_NOREPLACE) < 0)
		r = -errno;
	if (r < 0)
		remove_from(g->host, info->id);
	return r;
}

void spares_close(void)
{
	list_for_each (&spares, struct spare, s, link) {
		loop_child_remove(s->maker);
		spare_free(s);
	}
}
