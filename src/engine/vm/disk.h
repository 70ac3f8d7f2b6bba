// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A vm's own disk: LAYER/disk, a sparse file with an ext4 in it, as large as the sandbox's disk
 * limit. The guest's kernel holds that limit; the layer's quota group stands behind it with some
 * room for what the host's filesystem needs beside, so that a guest never meets it by being full.
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
/* That of a snapshot, to be cloned and not to be written to. */
must_check int disk_open_saved(int files_fd, int *ret_fd, struct err *err);
/* Another one in a layer, which is a copy of from_fd. Blocks, the longer the more pieces it is in.
 * 0 or a negative errno. */
must_check int disk_clone(const struct storage *s, int from_fd, int layer_fd, const char *name);
must_check int disk_open_clone(int layer_fd, const char *name, int *ret_fd, struct err *err);
