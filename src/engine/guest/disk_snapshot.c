// SPDX-License-Identifier: Apache-2.0
/*
 * The list of snapshots, and their sizes. With simple quotas, the bytes that a sandbox writes count
 * for its layer as long as they exist anywhere, also in a snapshot; a copy starts at zero. So the
 * limit of a layer is raised by what only its snapshots still have, which is charged to their owner
 * instead, and lowered by what a copy got from its snapshot (the file `below` in the layer), since
 * the sandbox sees those files too.
 */
#include "engine/guest/disk_snapshot.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/guest/backup.h"
#include "engine/guest/disk_snapshot_private.h"
#include "engine/guest/guest_kind.h"
#include "engine/layer/snapshot_manifest.h"
#include "engine/linux/btrfs.h"
#include "engine/linux/dir_tree.h"
#include "engine/linux/syscalls.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#define REMOVE_TRIES 3
#define LIMIT_LEAST  (UINT64_C(1) << 20)
#define LOWER_US     (1 * SECOND_US)   /* between looks at what btrfs has freed */
#define LOWER_MAX    (120 * SECOND_US) /* it does so with its transactions */

struct disk_snapshot {
	struct list link;
	struct snapshot_info info;
	bool is_brief; /* a fork's: nobody else will start from it */
};

static struct list all = LIST_INIT(all);
static struct list removals = LIST_INIT(removals);
static size_t n_all;
static struct loop_timer *lower; /* limits that are to come down */

static struct disk_snapshot *find(const char *id)
{
	list_for_each (&all, struct disk_snapshot, s, link)
		if (strcmp(s->info.id, id) == 0)
			return s;
	return NULL;
}

int disk_snapshot_open_dir(int dir_fd, const char *name)
{
	return openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void disk_snapshot_add(const struct snapshot_info *info, bool is_brief)
{
	struct disk_snapshot *s = xnew0(struct disk_snapshot);

	s->info = *info;
	s->is_brief = is_brief;
	list_append(&all, &s->link);
	n_all++;
}

static void drop(struct disk_snapshot *s)
{
	list_remove(&s->link);
	n_all--;
	free(s);
}

bool disk_snapshot_is_brief(const char *id)
{
	const struct disk_snapshot *s = find(id);

	return s && s->is_brief;
}

const struct snapshot_info *disk_snapshot_find(const char *id)
{
	const struct disk_snapshot *s = find(id);

	return s ? &s->info : NULL;
}

size_t disk_snapshot_count(void)
{
	return n_all;
}

static int read_below(int layer_fd, struct disk_snapshot_below *ret)
{
	auto_fd int fd = openat(layer_fd, DISK_SNAPSHOT_BELOW, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd_read_all(fd, ret, sizeof(*ret));
}

struct disk_snapshot_below disk_snapshot_below(struct guest_host *host, const char *id)
{
	auto_fd int fd = disk_snapshot_open_dir(host->storage.fd, id);
	struct disk_snapshot_below below = {0};

	if (fd >= 0 && read_below(fd, &below) < 0)
		below = (struct disk_snapshot_below){0}; /* its first layer, over nothing */
	return below;
}

static uint64_t count_pinned(const char *id, uint64_t line)
{
	uint64_t most = 0;

	list_for_each (&all, const struct disk_snapshot, s, link)
		if (strcmp(s->info.source, id) == 0 && s->info.line == line)
			most = MAX(most, s->info.written_bytes);
	return most;
}

uint64_t disk_snapshot_limit(struct guest_host *host, const struct guest_spec *spec)
{
	const struct guest_kind *kind = guest_kind_of(spec->engine);
	const uint64_t disk = spec->limits.disk_bytes + kind->disk_slack_bytes;
	struct disk_snapshot_below below;
	uint64_t lies_below;

	if (!host->storage.counts_once)
		return disk;
	below = disk_snapshot_below(host, spec->id);
	lies_below = kind->has_own_disk ? 0 : MIN(below.bytes, disk);
	return MAX(disk - lies_below, LIMIT_LEAST) + count_pinned(spec->id, below.line) +
	       backup_pinned(spec->id);
}

void disk_snapshot_usage(struct guest_host *host, const char *id, struct guest_usage *ret)
{
	uint64_t usage = storage_usage(&host->storage, id);
	struct disk_snapshot_below below;

	ret->disk_bytes = ret->files_bytes = usage;
	if (!host->storage.counts_once)
		return;
	below = disk_snapshot_below(host, id);
	ret->disk_bytes -= MIN(usage, count_pinned(id, below.line));
	ret->files_bytes += below.bytes;
}

/*
 * Bytes that only a snapshot had count for the layer until btrfs has freed them, a while after the
 * snapshot is removed. The limit stays raised until then, or the sandbox could not use all of its
 * disk.
 */
static void lower_limits(struct loop *loop, void *arg)
{
	struct guest_host *host = arg;
	bool is_due = false;

	list_for_each (&host->guests, struct guest, g, link) {
		uint64_t limit;

		if (g->lower_until_us == 0 || g->state != GUEST_RUNNING)
			continue;
		limit = disk_snapshot_limit(host, &g->spec);
		if (storage_usage(&host->storage, g->spec.id) > limit &&
		    loop_now_us(loop) < g->lower_until_us) {
			is_due = true;
			continue;
		}
		g->lower_until_us = 0;
		disk_snapshot_set_limit(host, g->spec.id);
	}
	if (is_due)
		loop_timer_set_in(lower, LOWER_US);
}

void disk_snapshot_lower_limit(struct guest_host *host, const char *id)
{
	list_for_each (&host->guests, struct guest, g, link)
		if (strcmp(g->spec.id, id) == 0)
			g->lower_until_us = loop_now_us(host->loop) + LOWER_MAX;
	loop_timer_set_in(lower, LOWER_US);
}

void disk_snapshot_set_limit(struct guest_host *host, const char *id)
{
	struct err err;

	list_for_each (&host->guests, const struct guest, g, link)
		if (strcmp(g->spec.id, id) == 0 && g->state == GUEST_RUNNING &&
		    storage_limit(&host->storage, id, disk_snapshot_limit(host, &g->spec), &err) <
		            0)
			log_warn("snapshot.limit_not_set", "id=%s error='%s'", id, err.message);
}

static int remove_once(struct guest_host *host, const char *name)
{
	auto_fd int fd = -1;
	int r = 0;

	if (unlinkat(host->storage.fd, name, AT_REMOVEDIR) == 0)
		return 0; /* where a copy was made */
	fd = disk_snapshot_open_dir(host->storage.fd, name);
	if (fd >= 0)
		r = btrfs_subvol_delete(fd, DISK_SNAPSHOT_FILES);
	if (fd >= 0 && (r == 0 || r == -ENOENT))
		r = disk_snapshot_remove_spare(fd);
	return r < 0 && r != -ENOENT ? r : dir_tree_remove(host->storage.fd, name);
}

/* Tries several times, since a lack of memory may be short. What is left then is removed by the
 * next start. */
void disk_snapshot_remove_dir(struct guest_host *host, const char *name)
{
	int r = remove_once(host, name);

	for (unsigned i = 0; r < 0 && i < REMOVE_TRIES; i++)
		r = remove_once(host, name);
	if (r < 0)
		log_warn("snapshot.leftover", "name=%s errno=%d", name, -r);
}

pid_t disk_snapshot_fork(int *ret_pidfd)
{
	struct clone_args args = {.flags = CLONE_PIDFD,
	                          .exit_signal = SIGCHLD,
	                          .pidfd = (uint64_t)(uintptr_t)ret_pidfd};
	pid_t pid = sys_clone3(&args);

	if (pid == 0)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

struct removal {
	struct list link;
	struct loop_child *child;
	guest_gone_fn gone;
	void *arg;
};

static void on_removed(struct loop *loop, int wait_status, void *arg)
{
	struct removal *r = arg;

	(void)loop;
	(void)wait_status; /* the next start removes leftovers by their name */
	list_remove(&r->link);
	r->gone(r->arg);
	free(r);
}

int disk_snapshot_start_removal(struct guest_host *host, const char *name, guest_gone_fn gone,
                                void *arg)
{
	struct removal *rm;
	int pidfd = -1, r;
	pid_t pid = disk_snapshot_fork(&pidfd);

	if (pid == 0) {
		disk_snapshot_remove_dir(host, name);
		_exit(0);
	}
	if (pid < 0)
		return -errno;
	rm = xnew0(struct removal);
	*rm = (struct removal){.gone = gone, .arg = arg};
	r = loop_child_take(host->loop, pidfd, on_removed, rm, &rm->child);
	if (r < 0) {
		free(rm);
		return r;
	}
	list_append(&removals, &rm->link);
	return 0;
}

int disk_snapshot_discard(struct guest_host *host, const char *id, guest_gone_fn gone, void *arg)
{
	int storage_fd = host->storage.fd;
	struct disk_snapshot *s = find(id);
	char name[DISK_SNAPSHOT_NAME_SIZE], source[ID_SIZE] = "";

	(void)snprintf(name, sizeof(name), "%s.gone", id);
	for (size_t i = 0; engines[i]; i++)
		if (engines[i]->kind && engines[i]->kind->snapshot_gone)
			engines[i]->kind->snapshot_gone(id);
	if (renameat(storage_fd, id, storage_fd, name) < 0 && errno != ENOENT)
		log_warn("snapshot.not_removed", "id=%s errno=%d", id, errno);
	if (s) {
		memcpy(source, s->info.source, sizeof(source));
		disk_snapshot_drop_spare(id);
		drop(s);
		disk_snapshot_lower_limit(host, source);
	}
	if (faccessat(storage_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return disk_snapshot_start_removal(host, name, gone, arg) < 0 ? 0 : 1;
}

void disk_snapshot_each(struct guest_host *host,
                        void (*fn)(const struct snapshot_info *info, void *arg), void *arg)
{
	(void)host;
	list_for_each (&all, const struct disk_snapshot, s, link)
		fn(&s->info, arg);
}

static bool is_left(const char *name)
{
	char id[ID_SIZE];
	size_t len = strcspn(name, ".");

	if (id_is_valid(name, "roll"))
		return true;
	if (len >= sizeof(id) ||
	    (strcmp(name + len, ".new") != 0 && strcmp(name + len, ".gone") != 0))
		return false;
	memcpy(id, name, len);
	id[len] = '\0';
	return id_is_valid(id, "sn");
}

void disk_snapshots_sweep(struct guest_host *host)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;

	if (!host->storage.is_btrfs)
		return;
	(void)!dir_open(&dir, host->storage.fd, ".");
	while ((name = dir_next(&dir))) {
		if (!is_left(name))
			continue;
		log_debug("snapshot.swept", "name=%s", name);
		if (btrfs_subvol_delete(host->storage.fd, name) < 0)
			disk_snapshot_remove_dir(host, name);
	}
	dir_tell(&dir, "leftover snapshots");
}

void disk_snapshot_on_start(const struct guest *g)
{
	const struct disk_snapshot *s = g->spec.snapshot[0] ? find(g->spec.snapshot) : NULL;

	if (s && !s->is_brief && !g->spec.is_resumed)
		disk_snapshot_want_spare(g->host, s->info.id);
}

static void load(struct guest_host *host, const char *id)
{
	auto_fd int fd = disk_snapshot_open_dir(host->storage.fd, id);
	struct snapshot_info info;
	int r = fd < 0 ? -errno : snapshot_manifest_read(fd, id, &info);

	if (fd >= 0)
		(void)disk_snapshot_remove_spare(fd);
	if (r == 0 && faccessat(fd, DISK_SNAPSHOT_FILES, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r < 0) /* not served, and not removed unless somebody says so */
		log_error("snapshot.unreadable", "id=%s errno=%d", id, -r);
	else
		disk_snapshot_add(&info, /* is_brief= */ false);
}

void disk_snapshots_open(struct guest_host *host)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;

	lower = loop_timer_new(host->loop, lower_limits, host);
	if (!host->storage.is_btrfs)
		return;
	(void)!dir_open(&dir, host->storage.fd, ".");
	while ((name = dir_next(&dir)))
		if (id_is_valid(name, "sn"))
			load(host, name);
	dir_tell(&dir, "snapshots");
}

void disk_snapshots_close(struct guest_host *host)
{
	disk_snapshot_take_end(host);
	spares_close();
	loop_timer_free(take_ptr(lower));
	list_for_each (&removals, struct removal, r, link) {
		loop_child_remove(r->child);
		list_remove(&r->link);
		free(r);
	}
	list_for_each (&all, struct disk_snapshot, s, link)
		drop(s);
}
