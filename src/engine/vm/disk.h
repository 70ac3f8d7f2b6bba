// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A vm's own disk: LAYER/disk, a sparse file with an ext4 in it, as large as the sandbox's disk
 * limit. The guest's kernel enforces that limit. The layer's quota group is a second limit, with
 * some extra room for the host's filesystem, so that a full guest never reaches it.
 *
 * An empty one of each size is made once and then cloned (DATA/layers/blank-SIZE-INODES), which
 * takes no time and no room.
 */
#include "engine/layer/storage.h"

#define DISK_SLACK_BYTES (UINT64_C(64) << 20)

/* An empty one in a new layer. */
must_check int disk_make(const struct storage *s, int layer_fd, uint64_t bytes, uint64_t inodes,
                         struct err *err);
must_check int disk_open(int layer_fd, int *ret_fd, struct err *err);
/* The disk of a snapshot, to be cloned and not written to. */
must_check int disk_open_saved(int files_fd, int *ret_fd, struct err *err);
/* Makes a copy of from_fd in a layer. Blocks, longer if the file is fragmented. 0 or a negative
 * errno. */
must_check int disk_clone(const struct storage *s, int from_fd, int layer_fd, const char *name);
must_check int disk_open_clone(int layer_fd, const char *name, int *ret_fd, struct err *err);
