// SPDX-License-Identifier: Apache-2.0
/*
 * Kernels from 6.12 on mount an erofs file directly. Older ones need a loop device, which vanishes
 * with the last copy of the mount.
 */
#include "engine/layer/image.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/parse.h"
#include "engine/linux/dir_tree.h"
#include "engine/linux/loopdev.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define MOUNTED_MAX 32
#define IMAGE       "image.erofs"
#define KEEPER      "keeper"
#define KEPT        ".base" /* behind the digest: of an image that only others need */
#define NAME_SIZE   (DIGEST_HEX + sizeof(KEPT))
#define PATH_SIZE   (NAME_SIZE + 64)

struct mounted {
	struct list link;
	struct digest digest;
	int fd;
	char *path;
};

static void unmount(struct images *im, struct mounted *m)
{
	list_remove(&m->link);
	im->n_mounted--;
	(void)close(m->fd);
	(void)umount2(m->path, MNT_DETACH | UMOUNT_NOFOLLOW);
	(void)rmdir(m->path);
	free(m->path);
	free(m);
}

static struct mounted *find(const struct images *im, const struct digest *digest)
{
	list_for_each (&im->mounted, struct mounted, m, link)
		if (digest_equal(&m->digest, digest))
			return m;
	return NULL;
}

/* The name of its directory: of a template's image, else of one that is kept for others. */
static void name_of(const struct images *im, const struct digest *digest, char ret[NAME_SIZE])
{
	digest_to_hex(digest, ret);
	if (faccessat(im->templates_fd, ret, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		memcpy(ret + DIGEST_HEX - 1, KEPT, sizeof(KEPT));
}

static int open_image(const struct images *im, const char *name)
{
	char path[PATH_SIZE];

	(void)snprintf(path, sizeof(path), "%s/" IMAGE, name);
	return openat(im->templates_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

static int read_bases(const struct images *im, const char *name, struct erofs_bases *ret)
{
	auto_fd int fd = open_image(im, name);

	*ret = (struct erofs_bases){.n = 0};
	return fd < 0 ? -errno : erofs_read_bases(fd, ret);
}

struct source { /* what is mounted: the image, and then its bases */
	char paths[1 + EROFS_BASES_MAX][PATH_SIZE];
	int loop_fds[1 + EROFS_BASES_MAX];
	size_t n;
};

static int find_source(const struct images *im, const struct digest *digest, struct source *ret,
                       struct err *err)
{
	struct erofs_bases bases;
	char name[NAME_SIZE];
	int r;

	name_of(im, digest, name);
	r = read_bases(im, name, &bases);
	if (r == -ENOENT)
		return err_set(err, ERR_NOT_FOUND, ENOENT, "there is no image %.12s…", name);
	if (r < 0) {
		(void)err_set(err, ERR_CONFLICT, -r, "image %.12s… is damaged", name);
		return err_hint(err, "delete the template, and build or import it again");
	}
	for (ret->n = 0; ret->n <= bases.n; ret->n++) {
		if (ret->n > 0)
			name_of(im, &bases.list[ret->n - 1].digest, name);
		(void)snprintf(ret->paths[ret->n], PATH_SIZE, "/proc/self/fd/%d/%s/" IMAGE,
		               im->templates_fd, name);
		ret->loop_fds[ret->n] = -1;
	}
	return 0;
}

static int mount_source(const struct source *s, const char *path)
{
	char options[EROFS_BASES_MAX * (PATH_SIZE + sizeof(",device="))] = "";
	size_t len = 0;

	for (size_t i = 1; i < s->n; i++)
		len += (size_t)snprintf(options + len, sizeof(options) - len, "%sdevice=%s",
		                        i > 1 ? "," : "", s->paths[i]);
	return mount(s->paths[0], path, "erofs", MS_RDONLY | MS_NOSUID | MS_NODEV, options) < 0
	               ? -errno
	               : 0;
}

/* The paths become those of loop devices. */
static int attach_loops(struct source *s, struct err *err)
{
	char device[LOOPDEV_SIZE];
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->n; i++) {
		r = loopdev_attach(s->paths[i], /* is_read_only= */ true, device, &s->loop_fds[i],
		                   err);
		if (r == 0)
			(void)snprintf(s->paths[i], PATH_SIZE, "%s", device);
	}
	return r;
}

static int mount_files(struct images *im, struct source *s, const char *path, struct err *err)
{
	int r = im->needs_loop ? -ENOTBLK : mount_source(s, path);

	if (r == -ENOTBLK) {
		im->needs_loop = true;
		r = attach_loops(s, err);
		if (r == 0)
			r = mount_source(s, path);
		for (size_t i = 0; i < s->n; i++)
			close_fd(&s->loop_fds[i]);
	}
	return r < 0 ? err_set(err, ERR_UNSUPPORTED, -r, "cannot mount the template's image") : 0;
}

static int mount_image(struct images *im, const struct digest *digest, struct mounted **ret,
                       struct err *err)
{
	char hex[DIGEST_HEX];
	auto_free char *path = NULL;
	struct source source;
	struct mounted *m;
	int fd, r = find_source(im, digest, &source, err);

	if (r < 0)
		return r;
	digest_to_hex(digest, hex);
	path = xasprintf("%s/%s", im->mounts, hex);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
	r = mount_files(im, &source, path, err);
	if (r < 0) {
		(void)rmdir(path);
		return r;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		(void)umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
		return err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", path);
	}
	m = xnew0(struct mounted);
	*m = (struct mounted){.digest = *digest, .fd = fd, .path = take_ptr(path)};
	im->n_mounted++;
	*ret = m;
	return 0;
}

int images_mount(struct images *im, const struct digest *digest, int *ret_fd, struct err *err)
{
	struct mounted *m = find(im, digest), *oldest;

	if (m) {
		list_remove(&m->link);
	} else {
		int r = mount_image(im, digest, &m, err);

		if (r < 0)
			return r;
	}
	list_append(&im->mounted, &m->link);
	oldest = list_first(&im->mounted, struct mounted, link);
	if (oldest && im->n_mounted > MOUNTED_MAX)
		unmount(im, oldest);
	*ret_fd = m->fd;
	return 0;
}

static int open_one(const struct images *im, const struct digest *digest, int *ret_fd,
                    struct err *err)
{
	char name[NAME_SIZE];

	name_of(im, digest, name);
	*ret_fd = open_image(im, name);
	return *ret_fd < 0 ? err_set(err, ERR_NOT_FOUND, errno, "there is no image %.12s…", name)
	                   : 0;
}

int images_open_files(const struct images *im, const struct digest *digest,
                      int fds[IMAGE_FILES_MAX], struct erofs_bases *ret, struct err *err)
{
	int r = open_one(im, digest, &fds[0], err);

	*ret = (struct erofs_bases){.n = 0};
	if (r < 0)
		return r;
	r = erofs_read_bases(fds[0], ret);
	if (r < 0)
		(void)err_set(err, ERR_CONFLICT, -r, "the template's image is damaged");
	for (size_t i = 0; i < IMAGE_FILES_MAX - 1; i++)
		fds[1 + i] = -1;
	for (size_t i = 0; r == 0 && i < ret->n; i++)
		r = open_one(im, &ret->list[i].digest, &fds[1 + i], err);
	for (size_t i = 0; r < 0 && i < IMAGE_FILES_MAX; i++)
		close_fd(&fds[i]);
	return r;
}

void images_drop(struct images *im, const struct digest *digest)
{
	struct mounted *m = find(im, digest);

	if (m)
		unmount(im, m);
}

static bool has_base(const struct images *im, const char *name, const struct digest *base)
{
	struct erofs_bases bases;

	if (read_bases(im, name, &bases) < 0)
		return false;
	for (size_t i = 0; i < bases.n; i++)
		if (digest_equal(&bases.list[i].digest, base))
			return true;
	return false;
}

bool image_parse_name(const char *name, struct digest *ret, bool *ret_is_kept)
{
	char hex[DIGEST_HEX];

	(void)snprintf(hex, sizeof(hex), "%s", name);
	*ret_is_kept = strlen(name) == NAME_SIZE - 2 && strcmp(name + DIGEST_HEX - 1, KEPT) == 0;
	return (*ret_is_kept || strlen(name) == DIGEST_HEX - 1) && digest_parse(hex, ret) == 0;
}

static bool is_needed(const struct images *im, const struct digest *digest)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	bool is_found = false, is_kept;
	struct digest other;
	const char *name;

	(void)!dir_open(&dir, im->templates_fd, ".");
	while (!is_found && (name = dir_next(&dir)))
		is_found = image_parse_name(name, &other, &is_kept) && has_base(im, name, digest);
	return is_found || dir.error < 0; /* rather kept than lost */
}

static int remove_dir(const struct images *im, const char *name)
{
	char gone[NAME_SIZE + sizeof(".gone")];

	/* The name is changed first: a half removed image must not be taken for a good one. */
	(void)snprintf(gone, sizeof(gone), "%s.gone", name);
	if (renameat(im->templates_fd, name, im->templates_fd, gone) < 0 && errno != ENOENT)
		return -errno;
	return dir_tree_remove(im->templates_fd, gone);
}

/* Removes what was kept for others that are gone; with each, others may be. */
static void drop_kept(const struct images *im)
{
	bool again = true;

	while (again) {
		auto_dir struct dir_reader dir = {.fd = -1};
		struct digest digest;
		const char *name;
		bool is_kept;

		again = false;
		(void)!dir_open(&dir, im->templates_fd, ".");
		while ((name = dir_next(&dir))) {
			char hex[DIGEST_HEX];

			if (!image_parse_name(name, &digest, &is_kept) || !is_kept)
				continue;
			digest_to_hex(&digest, hex);
			if (faccessat(im->templates_fd, hex, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
			    !is_needed(im, &digest))
				again = remove_dir(im, name) == 0 || again;
		}
	}
}

int images_remove(struct images *im, const struct digest *digest, struct err *err)
{
	char hex[DIGEST_HEX], kept[NAME_SIZE];
	int r;

	images_drop(im, digest);
	digest_to_hex(digest, hex);
	(void)snprintf(kept, sizeof(kept), "%s" KEPT, hex);
	if (!is_needed(im, digest)) {
		r = remove_dir(im, hex);
	} else {
		r = remove_dir(im, kept);
		if (r == 0 && renameat(im->templates_fd, hex, im->templates_fd, kept) < 0 &&
		    errno != ENOENT)
			r = -errno;
	}
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot remove image %.12s…", hex);
	drop_kept(im);
	return 0;
}

void image_kept_name(const struct digest *digest, char ret[IMAGE_NAME_SIZE])
{
	static_assert(IMAGE_NAME_SIZE >= DIGEST_HEX - 1 + sizeof(KEPT), "a name does not fit");
	digest_to_hex(digest, ret);
	memcpy(ret + DIGEST_HEX - 1, KEPT, sizeof(KEPT));
}

int images_show(struct images *im, const struct digest *digest, uint64_t keeper, struct err *err)
{
	char hex[DIGEST_HEX], kept[IMAGE_NAME_SIZE];
	auto_fd int fd = -1;
	int r;

	digest_to_hex(digest, hex);
	image_kept_name(digest, kept);
	if (faccessat(im->templates_fd, hex, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	fd = openat(im->templates_fd, kept, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "there is no image %.12s…", hex);
	r = image_write_keeper(fd, keeper, err);
	if (r < 0)
		return r;
	if (renameat(im->templates_fd, kept, im->templates_fd, hex) < 0 ||
	    fsync(im->templates_fd) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot name the image");
	return 0;
}

int image_write_keeper(int dir_fd, uint64_t keeper, struct err *err)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%" PRIu64, keeper);
	int r = fd_replace_file(dir_fd, KEEPER, text, (size_t)len, 0400, /* sync= */ true);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot mark the image") : 0;
}

void image_tell_bases(const struct erofs_bases *bases, struct image_bases *ret)
{
	static_assert(EROFS_BASES_MAX == IMAGE_BASES_MAX, "an image has more bases than we tell");
	*ret = (struct image_bases){.n = (uint32_t)bases->n};
	for (size_t i = 0; i < bases->n; i++) {
		ret->list[i].digest = bases->list[i].digest;
		ret->list[i].bytes = (uint64_t)bases->list[i].n_blocks * EROFS_BLOCK;
	}
}

static bool has_bytes(const struct images *im, const struct digest *digest, uint64_t bytes)
{
	char name[NAME_SIZE], path[PATH_SIZE];
	struct stat st;

	name_of(im, digest, name);
	(void)snprintf(path, sizeof(path), "%s/" IMAGE, name);
	return fstatat(im->templates_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (uint64_t)st.st_size == bytes;
}

/* Whether all that it needs is there. */
static bool find_bases(const struct images *im, const char *name, struct image_bases *ret)
{
	struct erofs_bases bases;

	if (read_bases(im, name, &bases) < 0)
		bases.n = 0; /* damaged; mounting it tells */
	image_tell_bases(&bases, ret);
	for (size_t i = 0; i < ret->n; i++)
		if (!has_bytes(im, &ret->list[i].digest, ret->list[i].bytes))
			return false;
	return true;
}

bool images_find(const struct images *im, const struct digest *digest, struct image_info *ret)
{
	char hex[DIGEST_HEX], text[32];
	auto_fd int fd = -1;
	struct stat st;

	digest_to_hex(digest, hex);
	fd = openat(im->templates_fd, hex, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstatat(fd, IMAGE, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	*ret = (struct image_info){
		.digest = *digest, .bytes = (uint64_t)st.st_size, .keeper = UINT64_MAX};
	if (!find_bases(im, hex, &ret->bases))
		return false;
	if (fd_read_file(fd, KEEPER, text, sizeof(text)) < 0 ||
	    parse_u64(text, UINT64_MAX, &ret->keeper) < 0)
		ret->keeper = UINT64_MAX;
	return true;
}

void images_each(const struct images *im, void (*fn)(const struct image_info *info, void *arg),
                 void *arg)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;

	(void)!dir_open(&dir, im->templates_fd, ".");
	while ((name = dir_next(&dir))) {
		struct digest digest;
		struct image_info info;

		if (digest_parse(name, &digest) == 0 && images_find(im, &digest, &info))
			fn(&info, arg);
	}
	dir_tell(&dir, "templates");
}

/* Removes what a killed broker left behind. */
static void sweep_mounts(const char *mounts)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;

	(void)!dir_open(&dir, AT_FDCWD, mounts);
	while ((name = dir_next(&dir))) {
		auto_free char *path = xasprintf("%s/%s", mounts, name);

		while (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
			;
		(void)rmdir(path);
	}
	dir_tell(&dir, "mounts of images");
}

int images_open(struct images *im, const char *data_dir, const char *run_dir, struct err *err)
{
	auto_free char *templates = xasprintf("%s/templates", data_dir);

	*im = (struct images){.templates_fd = -1, .mounts = xasprintf("%s/images", run_dir)};
	list_init(&im->mounted);
	/* 0700: files in an image have the owners and set-uid bits that its makers gave them. */
	if ((mkdir(templates, 0700) < 0 && errno != EEXIST) ||
	    (mkdir(im->mounts, 0700) < 0 && errno != EEXIST))
		return err_set(err, ERR_INTERNAL, errno, "cannot make the directories of images");
	sweep_mounts(im->mounts);
	im->templates_fd = open(templates, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (im->templates_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", templates);
	drop_kept(im);
	return 0;
}

void images_close(struct images *im)
{
	if (!im->mounts)
		return;
	list_for_each (&im->mounted, struct mounted, m, link)
		unmount(im, m);
	if (im->templates_fd >= 0)
		(void)close(take_fd(&im->templates_fd));
	(void)rmdir(im->mounts);
	free(take_ptr(im->mounts));
}
