// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Makes a backup: copies what a daemon has frozen (src/sandbox/fleet/backup.h) into the storage of
 * content.h.
 */
#include "backup/manifest.h"

struct make_source { /* as the daemon reports it */
	const char *id, *version;
	const char *data_dir;
	const char *database; /* beneath data_dir/gateway */
	uint64_t database_bytes;
	uint64_t at_us, layers, templates, left_out;
};

struct make_result {
	uint64_t bytes; /* of all parts */
	uint64_t read;  /* what had to be read: the rest has not changed */
	uint64_t added; /* what was written, compressed */
	uint64_t sandboxes, volumes, snapshots, templates, files;
};

/* progress: called with more bytes that were read. */
must_check int make_backup(const struct make_source *source, struct content *content,
                           void (*progress)(uint64_t bytes, void *arg), void *arg,
                           struct make_result *ret, struct err *err);
