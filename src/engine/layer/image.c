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

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define MOUNTED_MAX 32
#define IMAGE       "image.erofs"
#define KEEPER      "keeper"

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

static int mount_file(struct images *im, const char *file, const char *path, struct err *err)
{
	const unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV;
	auto_fd int loop_fd = -1;
	char device[LOOPDEV_SIZE];
	int r;

	if (!im->needs_loop && mount(file, path, "erofs", flags, NULL) == 0)
		return 0;
	if (!im->needs_loop && errno != ENOTBLK)
		return err_set(err, ERR_UNSUPPORTED, errno, "cannot mount the template's image");
	im->needs_loop = true;
	r = loopdev_attach(file, /* is_read_only= */ true, device, &loop_fd, err);
	if (r < 0)
		return r;
	if (mount(device, path, "erofs", flags, NULL) < 0)
		return err_set(err, ERR_UNSUPPORTED, errno, "cannot mount the template's image");
	return 0;
}

static int mount_image(struct images *im, const struct digest *digest, struct mounted **ret,
                       struct err *err)
{
	char hex[DIGEST_HEX];
	auto_free char *file = NULL, *path = NULL;
	struct mounted *m;
	int fd, r;

	digest_to_hex(digest, hex);
	file = xasprintf("/proc/self/fd/%d/%s/" IMAGE, im->templates_fd, hex);
	path = xasprintf("%s/%s", im->mounts, hex);
	if (access(file, F_OK) < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "there is no image %.12s…", hex);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
	r = mount_file(im, file, path, err);
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

int images_open_file(const struct images *im, const struct digest *digest, int *ret_fd,
                     struct err *err)
{
	char hex[DIGEST_HEX], path[DIGEST_HEX + 16];
	int fd;

	digest_to_hex(digest, hex);
	(void)snprintf(path, sizeof(path), "%s/" IMAGE, hex);
	fd = openat(im->templates_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "there is no image %.12s…", hex);
	*ret_fd = fd;
	return 0;
}

void images_drop(struct images *im, const struct digest *digest)
{
	struct mounted *m = find(im, digest);

	if (m)
		unmount(im, m);
}

int images_remove(struct images *im, const struct digest *digest, struct err *err)
{
	char hex[DIGEST_HEX], gone[DIGEST_HEX + 8];
	int r;

	images_drop(im, digest);
	digest_to_hex(digest, hex);
	/* The name is changed first: a half removed image must not be taken for a good one. */
	(void)snprintf(gone, sizeof(gone), "%s.gone", hex);
	if (renameat(im->templates_fd, hex, im->templates_fd, gone) < 0 && errno != ENOENT)
		return err_set(err, ERR_INTERNAL, errno, "cannot remove image %.12s…", hex);
	r = dir_tree_remove(im->templates_fd, gone);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot remove image %.12s…", hex) : 0;
}

int image_write_keeper(int dir_fd, uint64_t keeper, struct err *err)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%" PRIu64, keeper);
	int r = fd_replace_file(dir_fd, KEEPER, text, (size_t)len, 0400, /* sync= */ true);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot mark the image") : 0;
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
