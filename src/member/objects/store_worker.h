// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A process that speaks with the store of objects: one call at a time, blocking. The member has
 * several of them. What parses the store's answers has the store's keys, and the chunk under way;
 * it has neither the database's login nor the node's key nor any file but the one it is handed.
 *
 *	member ── job, with a file ──► worker ── HTTP or files ──► store
 *	       ◄── result ────────────
 *
 * A worker encrypts and decrypts, and tries again what may pass, with growing pauses.
 */
#include "member/objects/store_backend.h"
#include "object/object_manifest.h"

enum store_op {
	STORE_CHECK = 1,    /* whether objects can be put, read again and removed */
	STORE_PUT_CHUNK,    /* bytes of the file; the result has the name */
	STORE_GET_CHUNK,    /* into the file */
	STORE_PUT_MANIFEST, /* the whole file */
	STORE_GET_MANIFEST, /* into the empty file; the result has its length */
	STORE_LIST,         /* a part of all chunks or manifests, into the file as rows: struct
	                     * object_row (object_collect.h); the result has their number */
	STORE_REMOVE,       /* a chunk or a manifest, unless it was written at before_us or later:
	                     * then was_there */
	STORE_SWEEP,        /* what workers that died have left; the result has its number */
};

struct store_job {
	uint32_t op; /* of enum store_op */
	uint32_t len;
	uint64_t offset; /* in the file */
	struct digest name;
	struct object_keys keys;
	uint64_t before_us;     /* of a removal or a sweep */
	uint32_t is_manifest;   /* of a listing or a removal */
	char at[STORE_AT_SIZE]; /* of a listing: where to begin */
};

struct store_result {
	uint32_t op;
	uint32_t trouble; /* of enum trouble; 0: done */
	uint32_t was_there;
	uint32_t len;
	struct digest name;
	uint64_t written_us; /* of a check: what the store's clock said, 0 if it did not */
	char message[200];
	char at[STORE_AT_SIZE]; /* of a listing: where it goes on; "": that was all */
};

struct store_config {
	const char *objects, *endpoint, *region, *credentials, *ca; /* the settings */
};

/* Forks one. Called by root, which then is confined itself. What is wrong with the settings is told
 * by every result. */
must_check int store_worker_start(const struct store_config *config, int *ret_fd, struct err *err);
