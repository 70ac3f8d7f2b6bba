// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The images of templates, on disk and mounted. An image is one erofs file, named by the SHA-256 of
 * its bytes. It never changes, and all sandboxes that start from it share it. It may need other
 * images, its bases, which have blocks of its files (erofs_file.h).
 *
 *	DATA/templates/DIGEST/image.erofs
 *	DATA/templates/DIGEST.base/	one that was removed, and is kept as long as others need it
 *	DATA/templates/DIGEST/keeper	the store that has its record, as of a layer (kept_layer.h)
 *	RUN/images/DIGEST/		where it is mounted, from the first sandbox on
 *
 * Each jail has its own copy of the mount, so ours is needed only to make copies and may be removed
 * at any time: a bounded number stay, and the least recently used go first. The next broker
 * unmounts what a killed one left.
 */
#include "base/list.h"
#include "engine/engine.h"
#include "engine/erofs/erofs_file.h"

#define IMAGE_FILES_MAX (1 + EROFS_BASES_MAX)
#define IMAGE_NAME_SIZE (DIGEST_HEX + 5) /* of a directory, with its NUL */

struct images {
	int templates_fd;    /* DATA/templates */
	char *mounts;        /* RUN/images */
	struct list mounted; /* the most recently used last */
	size_t n_mounted;
	bool needs_loop; /* this kernel mounts block devices only */
};

must_check int images_open(struct images *im, const char *data_dir, const char *run_dir,
                           struct err *err);
void images_close(struct images *im); /* running jails keep their copies */

/* The root of the mounted image. *ret_fd is borrowed, until the next call that mounts or drops
 * one. */
must_check int images_mount(struct images *im, const struct digest *digest, int *ret_fd,
                            struct err *err);
/* The files themselves, for reading: the image, and behind it its bases in the order of *ret. The
 * rest of fds are -1. */
must_check int images_open_files(const struct images *im, const struct digest *digest,
                                 int fds[IMAGE_FILES_MAX], struct erofs_bases *ret,
                                 struct err *err);
void image_tell_bases(const struct erofs_bases *bases, struct image_bases *ret);
void images_drop(struct images *im, const struct digest *digest); /* the mount alone */
/* Removes mount and file, which stays hidden while other images need it. 0 also if there is none.
 * The caller makes sure that nobody uses it. */
must_check int images_remove(struct images *im, const struct digest *digest, struct err *err);

/* One that is kept for others alone is everybody's again. Fine if it is that already. */
must_check int images_show(struct images *im, const struct digest *digest, uint64_t keeper,
                           struct err *err);
/* The directory's name of one that is there for others alone. */
void image_kept_name(const struct digest *digest, char ret[IMAGE_NAME_SIZE]);
/* Whether a name in DATA/templates is an image's; *ret_is_kept: it is kept for others alone. */
bool image_parse_name(const char *name, struct digest *ret, bool *ret_is_kept);
must_check int image_write_keeper(int dir_fd, uint64_t keeper, struct err *err);
bool images_find(const struct images *im, const struct digest *digest, struct image_info *ret);
void images_each(const struct images *im, void (*fn)(const struct image_info *info, void *arg),
                 void *arg);
