// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The manifest of a backup: the parts of a data directory, in the order in which they are restored,
 * each with its pieces of content. It is JSON on disk. Reading checks it: paths stay beneath the
 * data directory, and a subvolume's parent comes before it.
 */
#include "backup/content.h"
#include "base/id.h"

#define BACKUP_FORMAT 1
#define UUID_SIZE     37

enum part_kind { PART_DIRECTORY, PART_FILE, PART_LINK, PART_SUBVOLUME };

struct part {
	enum part_kind kind;
	char *path; /* beneath the data directory: "gateway/state.db", "layers/sb_…" */
	uint32_t mode;
	bool is_gateways; /* belongs to the gateway's user, else to root */
	char *target;     /* of a link */
	uint64_t bytes;   /* of a file, or of a subvolume's stream (btrfs send) */
	struct digest *chunks;
	size_t n_chunks;

	/* Of a subvolume. */
	char stream_uuid[UUID_SIZE]; /* as its stream names it */
	char source_uuid[UUID_SIZE]; /* of the original */
	uint64_t source_transid;     /* its last change: the same means the same content */
	char *parent; /* path of the subvolume that its stream shares extents with, or NULL */
	/* The parent's UUID in its stream; "": the parent's stream_uuid. They differ if the
	 * parent's stream is from an earlier backup. */
	char parent_uuid[UUID_SIZE];
	uint64_t used_bytes, limit_bytes; /* by its quota group; limit 0 = none */
};

struct manifest {
	char id[ID_SIZE];
	char *version; /* of the cloche that wrote it */
	char *arch, *kernel;
	uint64_t at_us;
	uint64_t left_out; /* sandboxes that ran and are not in it */
	struct part *parts;
	size_t n_parts;
};

void manifest_done(struct manifest *m);
struct part *manifest_add(struct manifest *m, enum part_kind kind, const char *path); /* borrowed */
const struct part *manifest_find(const struct manifest *m, const char *path);
void part_add_chunk(struct part *p, const struct digest *digest);
uint64_t manifest_bytes(const struct manifest *m); /* of all parts */

must_check int manifest_to_text(const struct manifest *m, struct buf *out, struct err *err);
/* On failure *ret is empty. A newer format is refused. */
must_check int manifest_parse(const char *text, size_t len, struct manifest *ret, struct err *err);
