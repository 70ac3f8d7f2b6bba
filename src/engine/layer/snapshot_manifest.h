// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * DATA/layers/sn_…/manifest: what a snapshot is, in a fixed number of bytes with their SHA-256
 * behind them. Whoever finds another hash, version or id has no snapshot. The files themselves are
 * checksummed by btrfs.
 */
#include "engine/engine.h"

struct snapshot_manifest {
	uint32_t magic, version;
	struct snapshot_info info;
	struct digest hash; /* of all before it */
};

/* On disk when it is answered, if is_synced. */
must_check int snapshot_manifest_write(int dir_fd, const struct snapshot_info *info, bool is_synced,
                                       struct err *err);
/* -ENOENT: there is none; -EBADMSG: it is not whole, or not of this id; -EPROTONOSUPPORT: it is of
 * another version. */
must_check int snapshot_manifest_read(int dir_fd, const char *id, struct snapshot_info *ret);
