// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The storage of the sandboxes' layers: DATA/layers, with a directory per sandbox id.
 *
 *	DATA is on btrfs	layers/ is a directory in it
 *	else			layers/ is where DATA/layers.btrfs is mounted, on loop: a file that
 *				grows (backing.h, room.h)
 *	told to be plain	layers/ is a directory, and nothing limits a layer's size
 *
 * A layer holds the upper and work directories of the sandbox's overlays. On btrfs it is a
 * subvolume with a quota group as its hard limit: EDQUOT inside. Each inode is charged its
 * metadata, so the limit bounds their number too.
 *
 * After a device error btrfs gives up and is read-only from then on. If a start finds it so, it is
 * unmounted and mounted again, with the state of the last transaction; the guests that hold it must
 * be ended first.
 *
 * Only root may enter the directory: files in a layer have owners and set-uid bits that the sandbox
 * chose, and no user of the host may reach those.
 */
#include "base/err.h"

#include <stdbool.h>

struct storage {
	int fd;       /* DATA/layers */
	int data_fd;  /* DATA */
	int image_fd; /* DATA/layers.btrfs, -1 where there is none */
	bool is_btrfs;
	bool counts_once; /* btrfs_counts_once() */
	bool is_mounted;  /* by us or an earlier broker: to be unmounted in the end */
	char *path;
};

/* Whether the layers are mounted from an earlier start and gave up. */
bool storage_is_broken(const char *data_dir);
/* reserve: bytes of the disk that are not for layers; ahead: that the file of the first start has
 * (room.h); 0: by its size. */
must_check int storage_open(struct storage *s, const char *data_dir, bool is_plain,
                            uint64_t reserve, uint64_t ahead, struct err *err);
/* Grows it by that many bytes, for a caller that writes much at once while nobody watches the room
 * (room.h). */
must_check int storage_grow(const struct storage *s, uint64_t bytes, struct err *err);
void storage_close(struct storage *s, bool unmount); /* unmount: no layer is in use any more */

/* Makes the sandbox's layer. *ret_fd is its directory. */
must_check int storage_make(const struct storage *s, const char *id, uint64_t disk_bytes,
                            int *ret_fd, struct err *err);
must_check int storage_limit(const struct storage *s, const char *id, uint64_t disk_bytes,
                             struct err *err);
/* On btrfs: the layer as it is now, read-only, under another name; storage_remove() takes it
 * too. */
must_check int storage_snapshot(const struct storage *s, const char *id, const char *name,
                                struct err *err);
bool storage_has(const struct storage *s, const char *id);
uint64_t storage_usage(const struct storage *s, const char *id); /* bytes; 0 where not counted */
/* Removes anything in it. 0: it does not exist. 1: *ret_pidfd is a child that removes it; if that
 * fails, the next try is_again, and goes through all files. */
must_check int storage_remove(const struct storage *s, const char *name, bool is_again,
                              int *ret_pidfd);
