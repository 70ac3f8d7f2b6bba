// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * DATA/layers/sn_…/manifest describes a snapshot, in a fixed number of bytes followed by their
 * SHA-256. If the hash, version or id does not match, it is not a snapshot. Btrfs checksums the
 * files themselves.
 */
#include "engine/engine.h"

struct snapshot_manifest {
	uint32_t magic, version;
	struct snapshot_info info;
	struct digest hash; /* of all before it */
};

/* With is_synced, it is on disk when this returns. */
must_check int snapshot_manifest_write(int dir_fd, const struct snapshot_info *info, bool is_synced,
                                       struct err *err);
/* -ENOENT: there is none; -EBADMSG: it is damaged or of another id; -EPROTONOSUPPORT: it is of
 * another version. */
must_check int snapshot_manifest_read(int dir_fd, const char *id, struct snapshot_info *ret);
