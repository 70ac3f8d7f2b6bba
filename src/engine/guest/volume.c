// SPDX-License-Identifier: Apache-2.0
/*
 * A volume gets its name when it is complete, and loses it before it is removed. So if a broker
 * dies in between, the rest has another name, and the next start removes it.
 */
#include "engine/guest/volume.h"

#include "base/fs/dir_reader.h"
#include "base/log.h"
#include "engine/guest/guest.h"
#include "engine/layer/kept_layer.h"
#include "engine/linux/btrfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_SIZE (ID_SIZE + 8)
#define OWNER     1000 /* `user` inside */

static int open_volume(struct guest_host *host, const char *name)
{
	return openat(host->storage.fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int fill(struct guest_host *host, const char *name, const struct volume_spec *spec,
                struct err *err)
{
	auto_fd int fd = open_volume(host, name);
	int r = fd < 0 ? -errno : btrfs_limit(fd, spec->bytes);

	if (r == 0 && (mkdirat(fd, VOLUME_FILES, 0755) < 0 ||
	               fchownat(fd, VOLUME_FILES, OWNER, OWNER, AT_SYMLINK_NOFOLLOW) < 0))
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot set up the volume");
	return kept_layer_mark(fd, spec->keeper, err);
}

int volume_refuse_plain(struct err *err)
{
	(void)err_set(err, ERR_UNSUPPORTED, 0, "plain storage has no volumes");
	return err_hint(err, "start the daemon without --plain-storage");
}

int volume_make(struct guest_host *host, const struct volume_spec *spec, struct err *err)
{
	int storage_fd = host->storage.fd, r;
	char name[NAME_SIZE];

	if (!host->storage.is_btrfs)
		return volume_refuse_plain(err);
	(void)snprintf(name, sizeof(name), "%s.new", spec->id);
	r = btrfs_subvol_make(storage_fd, name);
	if (r < 0)
		return err_set(err, ERR_CAPACITY, -r, "cannot make a volume");
	r = fill(host, name, spec, err);
	if (r == 0 && renameat2(storage_fd, name, storage_fd, spec->id, RENAME_NOREPLACE) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot name the volume");
	if (r < 0)
		(void)!btrfs_subvol_delete(storage_fd, name);
	return r;
}

int volume_open(struct guest_host *host, const char *id, int *ret_fd, struct err *err)
{
	auto_fd int fd = open_volume(host, id), files_fd = -1;

	if (fd >= 0)
		files_fd =
			openat(fd, VOLUME_FILES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (files_fd < 0)
		return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_INTERNAL, errno,
		               "cannot open volume %s", id);
	*ret_fd = take_fd(&files_fd);
	return 0;
}

static bool is_used(struct guest_host *host, const char *id)
{
	list_for_each (&host->guests, const struct guest, g, link)
		for (size_t i = 0; i < VOLUMES_MAX; i++)
			if (strcmp(g->spec.volumes[i].id, id) == 0)
				return true;
	return false;
}

static void on_removed(struct loop *loop, int wait_status, void *arg)
{
	(void)loop;
	(void)arg;
	if (wait_status != 0) /* the next start comes back to it */
		log_warn("volume.not_removed", "wait_status=0x%x", (unsigned)wait_status);
}

int volume_discard(struct guest_host *host, const char *id, struct err *err)
{
	int storage_fd = host->storage.fd, pidfd = -1, r;
	struct loop_child *child;
	char name[NAME_SIZE];

	if (is_used(host, id))
		return err_set(err, ERR_CONFLICT, EBUSY, "a sandbox has volume %s", id);
	(void)snprintf(name, sizeof(name), "%s.gone", id);
	if (!host->storage.is_btrfs ||
	    (renameat(storage_fd, id, storage_fd, name) < 0 && errno == ENOENT))
		return 0;
	r = storage_remove(&host->storage, name, /* is_again= */ false, &pidfd);
	if (r == 1)
		r = loop_child_take(host->loop, pidfd, on_removed, NULL, &child);
	if (r < 0)
		log_warn("volume.not_removed", "id=%s errno=%d", id, -r);
	return 0;
}

static void each_name(struct guest_host *host,
                      void (*fn)(struct guest_host *host, const char *name, void *arg), void *arg)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;

	if (!host->storage.is_btrfs)
		return;
	(void)!dir_open(&dir, host->storage.fd, ".");
	while ((name = dir_next(&dir)))
		fn(host, name, arg);
	dir_tell(&dir, "volumes");
}

struct visit {
	void (*fn)(const struct volume_info *info, void *arg);
	void *arg;
};

static void visit_name(struct guest_host *host, const char *name, void *arg)
{
	const struct visit *v = arg;
	struct volume_info info = {0};

	if (!id_is_valid(name, "vo"))
		return;
	(void)snprintf(info.id, sizeof(info.id), "%s", name);
	if (kept_layer_read(&host->storage, name, &info.keeper) <= 0)
		info.keeper = UINT64_MAX;
	info.used_bytes = storage_usage(&host->storage, name);
	v->fn(&info, v->arg);
}

void volume_each(struct guest_host *host, void (*fn)(const struct volume_info *info, void *arg),
                 void *arg)
{
	struct visit v = {fn, arg};

	each_name(host, visit_name, &v);
}

static void sweep_name(struct guest_host *host, const char *name, void *arg)
{
	size_t len = strcspn(name, ".");
	char id[ID_SIZE];

	(void)arg;
	if (len >= sizeof(id) ||
	    (strcmp(name + len, ".new") != 0 && strcmp(name + len, ".gone") != 0))
		return;
	(void)snprintf(id, sizeof(id), "%.*s", (int)len, name);
	if (!id_is_valid(id, "vo"))
		return;
	log_debug("volume.swept", "name=%s", name);
	(void)!btrfs_subvol_delete(host->storage.fd, name);
}

void volumes_sweep(struct guest_host *host)
{
	each_name(host, sweep_name, NULL);
}
