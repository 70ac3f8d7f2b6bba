// SPDX-License-Identifier: Apache-2.0
/*
 * `cloche doctor --upgrade`: names what an older cloche has left that this version cannot take
 * over, before it is started on it. It only reads, while the old daemon may still run:
 *
 *	RUN/sandboxes/ID/record			a version that is not read here refuses the start
 *	DATA/gateway/state.db			likewise, by the version in its head
 *	DATA/layers/ID/manifest			a snapshot that would not be found
 *	DATA/layers/ID/memory/manifest		a memory without which its files are left
 */
#include "base/fd.h"
#include "base/id.h"
#include "base/json/json.h"
#include "daemon/daemon.h"
#include "daemon/site.h"
#include "engine/guest/disk_snapshot_private.h"
#include "engine/guest/guest_record.h"
#include "engine/jail/memory/memory_agent.h"
#include "engine/jail/memory/memory_image.h"
#include "engine/layer/snapshot_manifest.h"
#include "engine/vm/saved.h"
#include "store/migrate.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LOSSES_MAX        65536
#define DB_VERSION_OFFSET 60 /* of a file of SQLite: user_version, four bytes, big endian */

struct loss {
	const char *kind;
	char id[ID_SIZE];
	char why[400];
};

struct look {
	size_t n_sandboxes, n_snapshots, n_memories;
	struct loss *losses;
	size_t n_losses;
};

static printf_like(4, 5) void lose(struct look *l, const char *kind, const char *id,
                                   const char *fmt, ...)
{
	struct loss *loss;
	va_list args;

	if (l->n_losses == LOSSES_MAX)
		return;
	l->losses = xrealloc(l->losses, (l->n_losses + 1) * sizeof(*l->losses));
	loss = &l->losses[l->n_losses++];
	*loss = (struct loss){.kind = kind};
	(void)snprintf(loss->id, sizeof(loss->id), "%s", id);
	va_start(args, fmt);
	(void)vsnprintf(loss->why, sizeof(loss->why), fmt, args);
	va_end(args);
}

static int open_dir(int at_fd, const char *path)
{
	return openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Calls fn for each entry that is an id of that kind, with its directory. */
static void each_id(int dir_fd, const char *kind,
                    void (*fn)(struct look *l, const char *id, int fd), struct look *l)
{
	DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);
	const struct dirent *e;

	if (!dir && dir_fd >= 0)
		(void)close(dir_fd);
	while (dir && (e = readdir(dir))) {
		auto_fd int fd =
			id_is_valid(e->d_name, kind) ? open_dir(dirfd(dir), e->d_name) : -1;

		if (fd >= 0)
			fn(l, e->d_name, fd);
	}
	if (dir)
		(void)closedir(dir);
}

static void look_at_sandbox(struct look *l, const char *id, int fd)
{
	struct guest_record record;

	l->n_sandboxes++;
	if (guest_record_read(fd, id, &record) == -EPROTONOSUPPORT)
		lose(l, "sandbox", id,
		     "its record has version %u, this cloche knows %d to %d and refuses to start: "
		     "delete it, or stop it if it is persistent, by the cloche that runs it",
		     record.version, GUEST_RECORD_OLDEST, GUEST_RECORD_VERSION);
}

static void look_at_memory(struct look *l, const struct snapshot_info *info, int fd)
{
	struct err err = {0};
	struct saved saved;

	l->n_memories++;
	if (saved_read(fd, &saved, &err) == 0)
		lose(l, "memory", info->id,
		     "of %s, a vm: only the very build that saved it goes on with it; its files "
		     "stay",
		     info->source);
	else if (memory_image_fits(fd, &err) < 0)
		lose(l, "memory", info->id, "of %s: %s; its files stay", info->source, err.message);
}

static void look_at_snapshot(struct look *l, const char *id, int fd)
{
	auto_fd int memory_fd = -1;
	struct snapshot_info info;
	int r = snapshot_manifest_read(fd, id, &info);

	l->n_snapshots++;
	if (r < 0) {
		lose(l, "snapshot", id, "its manifest is %s",
		     r == -EPROTONOSUPPORT ? "of a version that this cloche does not know"
		                           : "not readable");
		return;
	}
	memory_fd = open_dir(fd, DISK_SNAPSHOT_MEMORY);
	if (memory_fd >= 0)
		look_at_memory(l, &info, memory_fd);
}

static void look_at_database(struct look *l, const char *data_dir)
{
	auto_free char *path = xasprintf("%s/gateway/state.db", data_dir);
	auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint32_t version;

	if (fd >= 0 && pread(fd, &version, sizeof(version), DB_VERSION_OFFSET) == sizeof(version) &&
	    be32toh(version) > (uint32_t)migrate_newest())
		lose(l, "database", "state.db",
		     "it has schema version %u, this cloche knows up to %d and refuses to start: "
		     "it "
		     "is older than the one that wrote it",
		     be32toh(version), migrate_newest());
}

/* Whether the layers are on a disk image that is not mounted, so that they cannot be checked. */
static bool is_hidden(const char *data_dir, int layers_fd)
{
	auto_free char *image = xasprintf("%s/layers.btrfs", data_dir);
	struct stat above, layers;

	return access(image, F_OK) == 0 && stat(data_dir, &above) == 0 &&
	       (layers_fd < 0 || (fstat(layers_fd, &layers) == 0 && layers.st_dev == above.st_dev));
}

static int look(struct look *l, const char *data_dir, const char *run_dir, struct err *err)
{
	auto_free char *sandboxes = xasprintf("%s/sandboxes", run_dir);
	auto_free char *layers = xasprintf("%s/layers", data_dir);
	auto_fd int agent_fd = -1;
	int layers_fd, r = site_open_agent(&agent_fd, err);

	if (r < 0)
		return r;
	if (access(data_dir, R_OK | X_OK) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot look into '%s'", data_dir);
	if (memory_agent_set(agent_fd) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read the agent");
	each_id(open_dir(AT_FDCWD, sandboxes), "sb", look_at_sandbox, l);
	look_at_database(l, data_dir);
	layers_fd = open_dir(AT_FDCWD, layers);
	if (is_hidden(data_dir, layers_fd))
		lose(l, "unknown", "layers.btrfs",
		     "it is not mounted, so no snapshot was looked at: look again while the daemon "
		     "runs");
	each_id(layers_fd, "sn", look_at_snapshot, l);
	return 0;
}

static void print_json(const struct look *l)
{
	auto_call(buf_done) struct buf out = BUF_INIT(64 << 20);
	struct json_writer w;

	json_writer_init(&w, &out);
	json_open_object(&w, NULL);
	json_put_str(&w, "version", CLOCHE_VERSION);
	json_put_u64(&w, "sandboxes", l->n_sandboxes);
	json_put_u64(&w, "snapshots", l->n_snapshots);
	json_put_u64(&w, "memories", l->n_memories);
	json_open_array(&w, "lost");
	for (size_t i = 0; i < l->n_losses; i++) {
		json_open_object(&w, NULL);
		json_put_str(&w, "kind", l->losses[i].kind);
		json_put_str(&w, "id", l->losses[i].id);
		json_put_str(&w, "why", l->losses[i].why);
		json_close_object(&w);
	}
	json_close_array(&w);
	json_close_object(&w);
	if (json_writer_end(&w) == 0)
		(void)printf("%s\n", buf_str(&out));
}

static void print_table(const struct look *l)
{
	for (size_t i = 0; i < l->n_losses; i++)
		(void)printf("%-9s %s: %s\n", l->losses[i].kind, l->losses[i].id, l->losses[i].why);
	(void)printf(
		"%sLooked at %zu running sandboxes, %zu snapshots, %zu of them with memory.\n%s\n",
		l->n_losses > 0 ? "\n" : "", l->n_sandboxes, l->n_snapshots, l->n_memories,
		l->n_losses > 0
			? "What is listed above would not be carried over to cloche " CLOCHE_VERSION
			  "."
			: "Nothing would be lost by an upgrade to cloche " CLOCHE_VERSION ".");
}

int doctor_upgrade(bool json, const char *data_dir, const char *run_dir, struct err *err)
{
	struct look l = {0};
	int r = look(&l, data_dir, run_dir, err);

	if (r == 0 && json)
		print_json(&l);
	else if (r == 0)
		print_table(&l);
	free(l.losses);
	return r < 0 ? r : l.n_losses > 0;
}
