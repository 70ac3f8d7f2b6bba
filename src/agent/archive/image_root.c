// SPDX-License-Identifier: Apache-2.0
/*
 * A layer is read twice. The first time its digests are held against what the image says of it, and
 * its whiteouts are done: "DIR/.wh.NAME" takes NAME away, "DIR/.wh..wh..opq" all that is in DIR.
 * They speak of the layers below, whatever their place in the archive, and nothing of this layer is
 * there yet. The second time it is unpacked.
 *
 * Nothing is ever written through what stands: a file is made anew, and what was there under its
 * name, be it a whole directory, is removed first, as a layer above would hide it. A directory
 * stays where one is. Times of directories are noted and set at the very end.
 */
#include "agent/archive/image_root.h"

#include "agent/archive/archive_reader.h"
#include "base/fd.h"
#include "base/fs/beneath.h"
#include "base/fs/walk.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define WHITEOUT       ".wh."
#define WHITEOUT_ALL   ".wh..wh..opq"
#define WHITEOUT_OTHER ".wh..wh." /* aufs' own notes */
#define ID_MAX         65535U     /* a sandbox has no others */
#define NOBODY         65534U
#define TIMES_MAX      ((size_t)64 << 20)
#define PROGRESS_BYTES (UINT64_C(8) << 20)

struct root {
	int fd;
	struct image_root_limits limits;
	struct image_root_figures figures;
	image_root_progress_fn progress;
	uint64_t told_bytes;
	bool has_whiteouts; /* of the archive that is read */
	/* the file whose data comes */
	int file_fd;
	char *path;
	struct tar_entry entry;
	struct buf times; /* of directories: struct timespec, path, NUL */
};

struct root *image_root_new(int fd, const struct image_root_limits *limits,
                            image_root_progress_fn progress)
{
	struct root *root = xnew0(struct root);

	root->fd = fd;
	root->limits = *limits;
	root->progress = progress;
	root->file_fd = -1;
	buf_init(&root->times, TIMES_MAX);
	return root;
}

void image_root_free(struct root *root)
{
	if (!root)
		return;
	if (root->file_fd >= 0)
		(void)close(root->file_fd);
	free(root->path);
	buf_done(&root->times);
	free(root);
}

const struct image_root_figures *image_root_figures(const struct root *root)
{
	return &root->figures;
}

static int open_in(const struct root *root, const char *path, int flags)
{
	return beneath_resolve(root->fd, path, flags, RESOLVE_IN_ROOT);
}

/* Step by step: links on the way are followed by the kernel each time. */
static int make_dirs(const struct root *root, char *dir)
{
	auto_fd int at = open_in(root, ".", O_PATH | O_DIRECTORY);

	for (char *name = dir, *end; at >= 0; name = end + 1) {
		char was;
		int next;

		end = name + strcspn(name, "/");
		was = *end;
		*end = '\0';
		next = open_in(root, dir, O_PATH | O_DIRECTORY);
		if (next == -ENOENT) {
			if (mkdirat(at, name, 0755) < 0)
				return errno == EEXIST ? -ENOTDIR : -errno; /* a link to nowhere */
			next = open_in(root, dir, O_PATH | O_DIRECTORY);
		}
		*end = was;
		if (next < 0 || was == '\0')
			return next;
		(void)close(at);
		at = next;
	}
	return at;
}

/* The directory that path lies in, and path's last name, which points into path. */
static int open_parent(const struct root *root, const char *path, bool make, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	auto_free char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	int fd = open_in(root, dir, O_PATH | O_DIRECTORY);

	if (fd == -ENOENT && make)
		fd = make_dirs(root, dir);
	*ret_name = slash ? slash + 1 : path;
	return fd;
}

static int refuse(struct err *err, int errnum, const char *path)
{
	if (errnum == ELOOP || errnum == ENOTDIR) {
		(void)err_set(err, ERR_FILE_INVALID, 0,
		              "archive entry '%.150s': leads through what is no directory", path);
		err->errnum = EINVAL;
		return -EINVAL;
	}
	return err_set(err, ERR_FILE_INVALID, errnum, "archive entry '%.150s'", path);
}

static int empty_dir(int fd)
{
	auto_call(walk_freep) struct walk *walk = NULL;
	struct walk_entry e;
	struct err ignored;
	int r = walk_new(fd, /* is_lenient= */ false, &walk, &ignored);

	while (r >= 0 && (r = walk_next(walk, &e, &ignored)) > 0) {
		bool is_dir = S_ISDIR(e.st.st_mode);

		if (is_dir && !e.is_leaving)
			continue;
		if (unlinkat(e.dir_fd, e.name, is_dir ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT)
			return -errno;
	}
	return r;
}

static int empty_dir_at(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : empty_dir(fd);
}

/* Whatever it is, and all that is in it. */
static int remove_at(int dir_fd, const char *name)
{
	int r;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	r = empty_dir_at(dir_fd, name);
	if (r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_whiteout(const char *path)
{
	return strncmp(last_name(path), WHITEOUT, strlen(WHITEOUT)) == 0;
}

static int white_out(const struct root *root, const char *path)
{
	const char *name = last_name(path) + strlen(WHITEOUT);
	auto_fd int dir_fd = -1;

	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -EINVAL;
	dir_fd = open_parent(root, path, /* make= */ false, &name);
	if (dir_fd == -ENOENT || dir_fd == -ENOTDIR)
		return 0; /* nothing of it is there */
	if (dir_fd < 0)
		return dir_fd;
	if (strcmp(name, WHITEOUT_ALL) == 0)
		return empty_dir_at(dir_fd, ".");
	if (strncmp(name, WHITEOUT_OTHER, strlen(WHITEOUT_OTHER)) == 0)
		return 0;
	return remove_at(dir_fd, name + strlen(WHITEOUT));
}

static int scan_on_entry(const struct tar_entry *e, void *arg, struct err *err)
{
	int r = is_whiteout(e->path) ? white_out(arg, e->path) : 0;

	return r < 0 ? refuse(err, -r, e->path) : 0;
}

static int scan_on_data(const void *data, size_t len, void *arg, struct err *err)
{
	(void)data;
	(void)len;
	(void)arg;
	(void)err;
	return 0;
}

static int scan_on_entry_end(void *arg, struct err *err)
{
	(void)arg;
	(void)err;
	return 0;
}

static void on_pipe(const char *path, void *arg)
{
	(void)path;
	(void)arg;
}

static int on_device(const char *path, void *arg, struct err *err)
{
	(void)arg;
	if (strncmp(path, "dev/", 4) == 0)
		return 0;
	return err_set(err, ERR_FILE_INVALID, 0, "archive entry '%.150s': is a device", path);
}

static const struct tar_ops scan_ops = {
	.on_entry = scan_on_entry,
	.on_data = scan_on_data,
	.on_entry_end = scan_on_entry_end,
	.on_pipe = on_pipe,
	.on_device = on_device,
};

static uid_t owner(struct root *root, uint32_t id)
{
	if (id <= ID_MAX)
		return id;
	root->figures.owners_changed++;
	return NOBODY;
}

static struct timespec time_of(const struct tar_entry *e)
{
	return (struct timespec){.tv_sec = (time_t)e->mtime_s, .tv_nsec = e->mtime_ns};
}

/* Mode last: a new owner takes set-id bits away. */
static int own_file(struct root *root, int fd, const struct tar_entry *e)
{
	if (fchown(fd, owner(root, e->uid), owner(root, e->gid)) < 0 || fchmod(fd, e->mode) < 0)
		return -errno;
	return 0;
}

static int note_time(struct root *root, const struct tar_entry *e)
{
	const struct timespec at = time_of(e);
	int r = buf_append(&root->times, &at, sizeof(at));

	return r < 0 ? r : buf_append(&root->times, e->path, strlen(e->path) + 1);
}

static int unpack_dir(struct root *root, const struct tar_entry *e, int dir_fd, const char *name)
{
	auto_fd int fd = -1;
	int r;

	if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) { /* it hides what is no directory */
		if (unlinkat(dir_fd, name, 0) < 0 || mkdirat(dir_fd, name, 0700) < 0)
			return -errno;
		fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0)
		return -errno;
	r = own_file(root, fd, e);
	return r < 0 ? r : note_time(root, e);
}

static int unpack_symlink(struct root *root, const struct tar_entry *e, int dir_fd,
                          const char *name)
{
	const struct timespec times[2] = {time_of(e), time_of(e)};

	if (symlinkat(e->target, dir_fd, name) < 0 ||
	    fchownat(dir_fd, name, owner(root, e->uid), owner(root, e->gid), AT_SYMLINK_NOFOLLOW) <
	            0)
		return -errno;
	(void)utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

static int unpack_hardlink(const struct root *root, const struct tar_entry *e, int dir_fd,
                           const char *name, struct err *err)
{
	const char *target;
	auto_fd int target_fd = open_parent(root, e->target, /* make= */ false, &target);

	if (target_fd >= 0 && linkat(target_fd, target, dir_fd, name, 0) == 0)
		return 0;
	return err_set(err, ERR_FILE_INVALID, 0,
	               "archive entry '%.120s': the file that it links to, '%.120s', is not there",
	               e->path, e->target);
}

static int unpack_file(struct root *root, const struct tar_entry *e, int dir_fd, const char *name)
{
	root->file_fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (root->file_fd < 0)
		return -errno;
	free(root->path);
	root->path = xstrdup(e->path);
	root->entry = *e;
	root->entry.path = root->entry.target = NULL; /* the reader's */
	return 0;
}

static int unpack_entry(struct root *root, const struct tar_entry *e, struct err *err)
{
	const char *name;
	auto_fd int dir_fd = open_parent(root, e->path, /* make= */ true, &name);
	int r = dir_fd < 0 ? dir_fd : 0;

	if (r == 0 && e->kind != TAR_DIR &&
	    !(e->kind == TAR_HARDLINK && strcmp(e->path, e->target) == 0))
		r = remove_at(dir_fd, name);
	if (r < 0)
		return refuse(err, -r, e->path);
	switch (e->kind) {
	case TAR_FILE:
		r = unpack_file(root, e, dir_fd, name);
		break;
	case TAR_DIR:
		r = unpack_dir(root, e, dir_fd, name);
		break;
	case TAR_SYMLINK:
		r = unpack_symlink(root, e, dir_fd, name);
		break;
	case TAR_HARDLINK:
		return unpack_hardlink(root, e, dir_fd, name, err);
	}
	return r < 0 ? refuse(err, -r, e->path) : 0;
}

static int unpack_on_entry(const struct tar_entry *e, void *arg, struct err *err)
{
	struct root *root = arg;

	root->figures.entries++;
	root->figures.newest_s = MAX(root->figures.newest_s, e->mtime_s);
	if (root->has_whiteouts && is_whiteout(e->path)) {
		if (e->kind == TAR_FILE && e->size > 0)
			return refuse(err, EINVAL, e->path);
		return 0;
	}
	return unpack_entry(root, e, err);
}

static int unpack_on_data(const void *data, size_t len, void *arg, struct err *err)
{
	struct root *root = arg;
	int r = fd_write_all(root->file_fd, data, len);

	if (r < 0)
		return refuse(err, -r, root->path);
	root->figures.bytes += len;
	if (root->figures.bytes - root->told_bytes < PROGRESS_BYTES)
		return 0;
	root->told_bytes = root->figures.bytes;
	return root->progress(&root->figures, err);
}

static int unpack_on_entry_end(void *arg, struct err *err)
{
	struct root *root = arg;
	const struct timespec times[2] = {time_of(&root->entry), time_of(&root->entry)};
	auto_fd int fd = take_fd(&root->file_fd);
	int r;

	if (fd < 0)
		return 0; /* a whiteout */
	r = own_file(root, fd, &root->entry);
	(void)futimens(fd, times); /* a time that the file system cannot hold is no failure */
	return r < 0 ? refuse(err, -r, root->path) : 0;
}

static void unpack_on_pipe(const char *path, void *arg)
{
	struct root *root = arg;

	(void)path;
	root->figures.left_out++;
}

static int unpack_on_device(const char *path, void *arg, struct err *err)
{
	struct root *root = arg;

	root->figures.left_out++;
	return on_device(path, arg, err);
}

static const struct tar_ops unpack_ops = {
	.on_entry = unpack_on_entry,
	.on_data = unpack_on_data,
	.on_entry_end = unpack_on_entry_end,
	.on_pipe = unpack_on_pipe,
	.on_device = unpack_on_device,
};

/* What is left for one more archive; 0 would mean no limit. */
static struct tar_limits limits_left(const struct root *root)
{
	return (struct tar_limits){
		.entries =
			root->limits.entries - MIN(root->limits.entries - 1, root->figures.entries),
		.bytes = root->limits.bytes - MIN(root->limits.bytes - 1, root->figures.bytes),
		.is_root = true};
}

int image_root_unpack(struct root *root, int archive_fd, struct err *err)
{
	const struct tar_limits limits = limits_left(root);
	struct archive_reader end;

	return archive_reader_run(archive_fd, &unpack_ops, root, &limits, &end, err);
}

static int check_digest(const struct digest *want, const struct digest *have, const char *what,
                        struct err *err)
{
	char hex[DIGEST_HEX];

	if (digest_equal(want, have))
		return 0;
	digest_to_hex(want, hex);
	return err_set(err, ERR_FILE_INVALID, 0,
	               "image: the layer %s is damaged: its %s is another", hex, what);
}

int image_root_add_layer(struct root *root, const struct image_root_layer *layer, struct err *err)
{
	const struct tar_limits limits = limits_left(root);
	struct archive_reader end;
	int r = archive_reader_run(layer->fd, &scan_ops, root, &limits, &end, err);

	if (r == 0 && layer->raw)
		r = check_digest(layer->raw, &end.raw, "digest", err);
	if (r == 0)
		r = check_digest(layer->diff_id, &end.plain, "diff_id", err);
	if (r == 0 && layer->bytes > 0 && end.raw_bytes != layer->bytes)
		r = err_set(err, ERR_FILE_INVALID, 0,
		            "image: a layer has another size than announced");
	if (r < 0)
		return r;
	if (lseek(layer->fd, 0, SEEK_SET) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read a layer again");
	root->has_whiteouts = true;
	r = image_root_unpack(root, layer->fd, err);
	root->has_whiteouts = false;
	return r;
}

void image_root_finish(struct root *root)
{
	const char *at = root->times.data, *end = at ? at + root->times.len : NULL;

	while (at < end) {
		struct timespec times[2];
		auto_fd int fd = -1;

		memcpy(&times[1], at, sizeof(times[1]));
		times[0] = times[1];
		at += sizeof(times[1]);
		fd = open_in(root, at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		if (fd >= 0) /* a later layer may have taken it away */
			(void)futimens(fd, times);
		at += strlen(at) + 1;
	}
}
