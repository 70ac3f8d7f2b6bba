// SPDX-License-Identifier: Apache-2.0
/*
 * The storage of layers is made as the daemon makes it (engine/layer/storage.h). Then each
 * subvolume is received in the manifest's order, after those that it shares extents with. All stay
 * read-only until the last one is in: `btrfs receive` finds them by their UUIDs. Then each becomes
 * what it was: a writable layer or volume with its limit, under its name; or a snapshot's files.
 *
 * Quotas count a byte for the subvolume that wrote it. After a restore that is another one: shared
 * bytes count for the subvolume that was received first. A layer's file `below` says how much of
 * its use came from its snapshot; it is set so that the layer has as much space left as before.
 */
#include "backup/restore.h"

#include "backup/subvolume.h"
#include "base/fd.h"
#include "base/fs/beneath.h"
#include "base/fs/dir_reader.h"
#include "engine/layer/below.h"
#include "engine/layer/storage.h"
#include "engine/linux/btrfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#define FILES         "files"
#define STAGING       "layers/restore" /* where subvolumes are received that are moved later */
#define MANIFEST_TEXT (256U << 20)

struct restore {
	struct content *content;
	const struct manifest *manifest;
	const struct restore_spec *spec;
	struct restore_result *result;
	int data_fd;
	struct storage storage;
	struct buf piece;
};

struct search {
	struct content *content;
	const char *which;
	struct manifest *found;
	bool is_found;
};

static int look_at(const char *name, void *arg, struct err *err)
{
	struct search *s = arg;
	auto_call(buf_done) struct buf text = BUF_INIT(MANIFEST_TEXT);
	struct manifest m;
	int r = content_read(s->content, name, &text, err);

	if (r == 0)
		r = manifest_parse(text.data, text.len, &m, err);
	if (r < 0)
		return r;
	if (s->which && strncmp(name, s->which, strlen(s->which)) != 0 &&
	    strncmp(m.id, s->which, strlen(s->which)) != 0) {
		manifest_done(&m);
		return 0;
	}
	manifest_done(s->found);
	*s->found = m;
	s->is_found = true;
	return 0;
}

int restore_find(struct content *c, const char *which, struct manifest *ret, struct err *err)
{
	struct search s = {.content = c, .which = which, .found = ret};
	int r;

	*ret = (struct manifest){0};
	r = content_each(c, look_at, &s, err);
	if (r == 0 && !s.is_found)
		r = which ? err_set(err, ERR_NOT_FOUND, 0, "there is no backup '%.80s'", which)
		          : err_set(err, ERR_NOT_FOUND, 0, "there is no whole backup");
	if (r < 0)
		manifest_done(ret);
	return r;
}

int restore_verify(struct content *c, const struct manifest *m,
                   void (*progress)(uint64_t bytes, void *arg), void *arg, struct err *err)
{
	auto_call(buf_done) struct buf piece = BUF_INIT(CHUNK_MAX);

	for (size_t i = 0; i < m->n_parts; i++) {
		const struct part *p = &m->parts[i];
		uint64_t bytes = 0;

		for (size_t k = 0; k < p->n_chunks; k++) {
			int r = content_get(c, &p->chunks[k], &piece, err);

			if (r < 0)
				return r;
			bytes += piece.len;
			if (progress)
				progress(piece.len, arg);
		}
		if (bytes != p->bytes)
			return err_set(err, ERR_FILE_INVALID, 0,
			               "'%s' has %llu bytes instead of %llu", p->path,
			               (unsigned long long)bytes, (unsigned long long)p->bytes);
	}
	return 0;
}

static int check_empty(const char *path, struct err *err)
{
	auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dir_reader dir;
	const char *name;

	if (fd < 0)
		return errno == ENOENT ? 0
		                       : err_set(err, ERR_CONFLICT, errno,
		                                 "cannot use the data directory '%s'", path);
	if (dir_begin(&dir, fd) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot list '%s'", path);
	if (faccessat(fd, RESTORE_MARK, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		(void)err_set(err, ERR_CONFLICT, ENOTEMPTY,
		              "a restore into the data directory '%s' was not finished", path);
		return err_hint(err, "empty it, then restore again");
	}
	while ((name = dir_next(&dir))) {
		if (strcmp(name, "lost+found") == 0)
			continue;
		(void)err_set(err, ERR_CONFLICT, ENOTEMPTY,
		              "the data directory '%s' is in use: it has '%.40s'", path, name);
		return err_hint(err, "stop the daemon and move the directory away, or name another "
		                     "by --data");
	}
	if (dir.error < 0)
		return err_set(err, ERR_INTERNAL, -dir.error, "cannot list '%s'", path);
	return 0;
}

static int check_space(const struct manifest *m, const char *data_dir, struct err *err)
{
	auto_free char *parent = xstrdup(data_dir);
	char *slash = strrchr(parent, '/');
	uint64_t need = manifest_bytes(m), room;
	struct statvfs disk;

	if (statvfs(data_dir, &disk) < 0) {
		if (slash)
			slash[slash == parent] = '\0';
		if (statvfs(slash ? parent : ".", &disk) < 0)
			return 0; /* it is made with its parents */
	}
	room = (uint64_t)disk.f_bavail * disk.f_frsize;
	if (room >= need)
		return 0;
	return err_set(
		err, ERR_DISK_FULL, ENOSPC, "the backup needs %llu MiB in '%s', and %llu are free",
		(unsigned long long)(need >> 20), data_dir, (unsigned long long)(room >> 20));
}

/* The next daemon would adopt running sandboxes, whose files are not those of the backup. */
static int check_run_dir(const char *run_dir, struct err *err)
{
	auto_free char *lock = xasprintf("%s/lock", run_dir);
	auto_free char *sandboxes = xasprintf("%s/sandboxes", run_dir);
	auto_fd int lock_fd = open(lock, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int fd = open(sandboxes, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dir_reader dir;

	if (lock_fd >= 0 && flock(lock_fd, LOCK_SH | LOCK_NB) < 0) {
		(void)err_set(err, ERR_CONFLICT, EBUSY, "a daemon runs in '%s'", run_dir);
		return err_hint(err, "systemctl stop cloche");
	}
	if (fd >= 0 && dir_begin(&dir, fd) == 0 && (dir_next(&dir) || dir.error < 0)) {
		(void)err_set(err, ERR_CONFLICT, EBUSY,
		              "sandboxes of an earlier daemon still run ('%s')", sandboxes);
		return err_hint(
			err, "end them by `cloche serve --sweep`, before their data directory is "
			     "moved away");
	}
	return 0;
}

int restore_check(const struct manifest *m, const char *data_dir, const char *run_dir,
                  struct err *err)
{
	struct utsname host;
	int r = run_dir ? check_run_dir(run_dir, err) : 0;

	if (r == 0)
		r = check_empty(data_dir, err);
	if (r < 0)
		return r;
	(void)uname(&host);
	if (strcmp(host.machine, m->arch) != 0)
		return err_set(err, ERR_UNSUPPORTED, 0,
		               "the backup is of a machine of kind %s, and this one is %s", m->arch,
		               host.machine);
	return check_space(m, data_dir, err);
}

static int failed(const char *what, const char *path, struct err *err)
{
	return err_set(err, errno == ENOSPC ? ERR_DISK_FULL : ERR_INTERNAL, errno, "cannot %s '%s'",
	               what, path);
}

static int make_parents(const char *path, struct err *err)
{
	auto_free char *part = xstrdup(path);

	for (char *p = strchr(part + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return failed("make", part, err);
		*p = '/';
	}
	return mkdir(path, 0711) < 0 && errno != EEXIST ? failed("make", path, err) : 0;
}

static int open_data(struct restore *rs, struct err *err)
{
	const char *path = rs->spec->data_dir;
	int r = make_parents(path, err);

	if (r < 0)
		return r;
	rs->data_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (rs->data_fd < 0 || fchown(rs->data_fd, 0, 0) < 0 || fchmod(rs->data_fd, 0711) < 0)
		return failed("open", path, err);
	r = fd_replace_file(rs->data_fd, RESTORE_MARK, "", 0, 0600, /* sync= */ true);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write to '%s'", path) : 0;
}

static int set_owner(const struct restore *rs, const struct part *p, int fd, struct err *err)
{
	const uid_t uid = p->is_gateways ? rs->spec->uid : 0;
	const gid_t gid = p->is_gateways ? rs->spec->gid : 0;

	return fchown(fd, uid, gid) < 0 || fchmod(fd, p->mode) < 0 ? failed("set up", p->path, err)
	                                                           : 0;
}

static int open_parent(const struct restore *rs, const struct part *p, const char **ret_name,
                       struct err *err)
{
	int fd = beneath_parent(rs->data_fd, p->path, /* make= */ true, ret_name);

	return fd < 0 ? err_set(err, ERR_INTERNAL, -fd, "cannot make the way to '%s'", p->path)
	              : fd;
}

static int put_directory(struct restore *rs, const struct part *p, struct err *err)
{
	const char *name;
	auto_fd int dir_fd = open_parent(rs, p, &name, err), fd = -1;

	if (dir_fd < 0)
		return dir_fd;
	if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
		return failed("make", p->path, err);
	fd = beneath_open(dir_fd, name, O_RDONLY | O_DIRECTORY);
	return fd < 0 ? failed("open", p->path, err) : set_owner(rs, p, fd, err);
}

static int put_link(struct restore *rs, const struct part *p, struct err *err)
{
	const char *name;
	auto_fd int dir_fd = open_parent(rs, p, &name, err);

	if (dir_fd < 0)
		return dir_fd;
	return symlinkat(p->target, dir_fd, name) < 0 ? failed("make", p->path, err) : 0;
}

/* Gives the pieces of a part: 1 for each, 0 after the last. */
struct flow {
	struct restore *rs;
	const struct part *part;
	size_t next;
};

static int give(const void **ret, size_t *ret_len, void *arg, struct err *err)
{
	struct flow *f = arg;
	struct restore *rs = f->rs;
	int r;

	if (f->next == f->part->n_chunks)
		return 0;
	r = content_get(rs->content, &f->part->chunks[f->next++], &rs->piece, err);
	if (r < 0)
		return r;
	*ret = rs->piece.data;
	*ret_len = rs->piece.len;
	rs->result->bytes += rs->piece.len;
	if (rs->spec->progress)
		rs->spec->progress(rs->piece.len, rs->spec->arg);
	return 1;
}

static int put_file(struct restore *rs, const struct part *p, struct err *err)
{
	struct flow flow = {.rs = rs, .part = p};
	const char *name;
	auto_fd int dir_fd = open_parent(rs, p, &name, err), fd = -1;
	const void *data;
	size_t len;
	int r;

	if (dir_fd < 0)
		return dir_fd;
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return failed("make", p->path, err);
	while ((r = give(&data, &len, &flow, err)) > 0) {
		r = fd_write_all(fd, data, len);
		if (r < 0) {
			errno = -r;
			return failed("write", p->path, err);
		}
	}
	rs->result->files++;
	return r < 0 ? r : set_owner(rs, p, fd, err);
}

/* "layers/sb_…" is received in STAGING and moved later. A snapshot stays read-only and could not be
 * moved, so it is received in its place. */
static char *place_of(const struct part *p)
{
	const char *name = p->path + strlen("layers/");
	size_t len = strcspn(name, "/");

	return name[len] ? xasprintf("layers/%.*s", (int)len, name)
	                 : xasprintf(STAGING "/%s", name);
}

/* The stream names its parent by the UUID that the parent had when the stream was made. */
static int name_parent(struct restore *rs, const struct part *p, struct err *err)
{
	const struct part *parent = p->parent ? manifest_find(rs->manifest, p->parent) : NULL;
	auto_free char *place = parent ? place_of(parent) : NULL;
	auto_free char *made = parent ? xasprintf("%s/" FILES, place) : NULL;
	auto_fd int fd = -1;
	int r;

	if (!parent)
		return 0;
	fd = beneath_open(rs->data_fd, made, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return failed("find", made, err);
	r = subvolume_name(fd, p->parent_uuid[0] ? p->parent_uuid : parent->stream_uuid,
	                   parent->source_transid);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot name '%s' for '%s'", p->parent,
	                       p->path)
	             : 0;
}

static int put_subvolume(struct restore *rs, const struct part *p, struct err *err)
{
	struct flow flow = {.rs = rs, .part = p};
	auto_free char *place = place_of(p);
	auto_free char *dir = xasprintf("%s/%s", rs->spec->data_dir, place);
	auto_free char *made = xasprintf("%s/" FILES, place);
	auto_fd int fd = -1;
	int r;

	if (mkdirat(rs->data_fd, place, 0700) < 0 && errno != EEXIST)
		return failed("make", place, err);
	r = name_parent(rs, p, err);
	if (r == 0)
		r = subvolume_receive(dir, give, &flow, err);
	if (r < 0)
		return err_prefix(err, "%s", p->path);
	fd = beneath_open(rs->data_fd, made, O_RDONLY | O_DIRECTORY);
	return fd < 0 ? failed("find", made, err) : 0;
}

static bool is_kind(const struct part *p, const char *kind)
{
	return strncmp(p->path + strlen("layers/"), kind, strlen(kind)) == 0;
}

/* Sets `below` so that the layer has as much space left as before. */
static int fit_below(const struct restore *rs, const struct part *p, int fd, struct err *err)
{
	auto_fd int file_fd = openat(fd, DISK_SNAPSHOT_BELOW, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct disk_snapshot_below below = {0};
	uint64_t used = 0, seen;

	if (!rs->storage.counts_once || btrfs_usage(fd, &used) < 0)
		return 0;
	if (file_fd >= 0 && fd_read_all(file_fd, &below, sizeof(below)) < 0)
		below = (struct disk_snapshot_below){0};
	seen = below.bytes + p->used_bytes;
	below.bytes = seen > used ? seen - used : 0;
	if (file_fd < 0 && below.bytes == 0)
		return 0;
	if (file_fd < 0)
		file_fd = openat(fd, DISK_SNAPSHOT_BELOW,
		                 O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file_fd < 0 || pwrite(file_fd, &below, sizeof(below), 0) != sizeof(below))
		return failed("set up", p->path, err);
	return 0;
}

static int settle(struct restore *rs, const struct part *p, struct err *err)
{
	const bool is_snapshot = is_kind(p, "sn_");
	auto_free char *place = place_of(p);
	auto_free char *made = xasprintf("%s/" FILES, place);
	auto_fd int fd = beneath_open(rs->data_fd, made, O_RDONLY | O_DIRECTORY);
	int r = fd < 0 ? fd : subvolume_settle(fd, is_snapshot);

	rs->result->snapshots += is_snapshot;
	rs->result->volumes += is_kind(p, "vo_");
	rs->result->sandboxes += is_kind(p, "sb_");
	if (r == 0 && p->limit_bytes > 0 && is_kind(p, "vo_"))
		r = btrfs_limit(fd, p->limit_bytes);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot set up '%s'", p->path);
	if (is_snapshot)
		return 0;
	r = is_kind(p, "sb_") ? fit_below(rs, p, fd, err) : 0;
	if (r < 0)
		return r;
	if (renameat2(rs->data_fd, made, rs->data_fd, p->path, RENAME_NOREPLACE) < 0 ||
	    unlinkat(rs->data_fd, place, AT_REMOVEDIR) < 0)
		return failed("name", p->path, err);
	return 0;
}

static int each(struct restore *rs, bool (*is_meant)(const struct part *p),
                int (*fn)(struct restore *rs, const struct part *p, struct err *err),
                struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < rs->manifest->n_parts; i++)
		if (is_meant(&rs->manifest->parts[i]))
			r = fn(rs, &rs->manifest->parts[i], err);
	return r;
}

static bool is_subvolume(const struct part *p)
{
	return p->kind == PART_SUBVOLUME;
}

static int put_layers(struct restore *rs, struct err *err)
{
	int r = storage_open(&rs->storage, rs->spec->data_dir, /* is_plain= */ false,
	                     /* reserve= */ 0, /* ahead= */ 0, err);

	if (r == 0)
		r = storage_grow(&rs->storage, manifest_bytes(rs->manifest), err);
	if (r < 0)
		return r;
	if (mkdirat(rs->data_fd, STAGING, 0700) < 0)
		return failed("make", STAGING, err);
	r = each(rs, is_subvolume, put_subvolume, err);
	if (r == 0 && syncfs(rs->storage.fd) < 0) /* quotas count what is on disk */
		r = failed("write", "layers", err);
	if (r == 0)
		r = each(rs, is_subvolume, settle, err);
	if (r == 0 && unlinkat(rs->data_fd, STAGING, AT_REMOVEDIR) < 0)
		r = failed("remove", STAGING, err);
	return r;
}

static bool is_plain(const struct part *p)
{
	return p->kind != PART_SUBVOLUME && p->kind != PART_LINK;
}

static bool is_link(const struct part *p)
{
	return p->kind == PART_LINK;
}

static int put_plain(struct restore *rs, const struct part *p, struct err *err)
{
	const size_t len = strlen(p->path);

	if (p->kind == PART_DIRECTORY) {
		rs->result->templates += strncmp(p->path, "templates/", 10) == 0;
		rs->result->memories += strncmp(p->path, "layers/sn_", 10) == 0 && len > 7 &&
		                        strcmp(p->path + len - 7, "/memory") == 0;
		return put_directory(rs, p, err);
	}
	return put_file(rs, p, err);
}

static int finish(struct restore *rs, struct err *err)
{
	if (syncfs(rs->storage.fd) < 0 || syncfs(rs->data_fd) < 0)
		return failed("write", rs->spec->data_dir, err);
	storage_close(&rs->storage, /* unmount= */ true);
	if (unlinkat(rs->data_fd, RESTORE_MARK, 0) < 0 || fsync(rs->data_fd) < 0)
		return failed("finish", rs->spec->data_dir, err);
	return 0;
}

int restore_run(struct content *c, const struct manifest *m, const struct restore_spec *spec,
                struct restore_result *ret, struct err *err)
{
	struct restore rs = {.content = c,
	                     .manifest = m,
	                     .spec = spec,
	                     .result = ret,
	                     .data_fd = -1,
	                     .storage = {.fd = -1},
	                     .piece = BUF_INIT(CHUNK_MAX)};
	struct utsname host;
	int r;

	*ret = (struct restore_result){0};
	(void)uname(&host);
	ret->is_other_kernel = strcmp(host.release, m->kernel) != 0;
	r = open_data(&rs, err);
	if (r == 0)
		r = put_layers(&rs, err);
	if (r == 0)
		r = each(&rs, is_plain, put_plain, err);
	if (r == 0)
		r = each(&rs, is_link, put_link, err);
	if (r == 0)
		r = finish(&rs, err);
	if (rs.storage.path)
		storage_close(&rs.storage, /* unmount= */ true);
	buf_done(&rs.piece);
	if (rs.data_fd >= 0)
		(void)close(rs.data_fd);
	return r;
}
