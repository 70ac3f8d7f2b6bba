// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Brings one thing to the store, or from there, in chunks, eight at a time.
 *
 *	upload    file ──► chunks ──► manifest. The manifest is last: who finds it finds all.
 *	download  manifest ──► the target says whether it wants that, and into which file ──► chunks
 *
 * Each chunk is checked when it comes; whether the whole is what was sealed is the broker's to say,
 * which hashes it. A transfer ends by its callback, once, and is gone then.
 */
#include "member/objects/store_pool.h"

struct transfer_result {
	enum trouble trouble; /* TROUBLE_NONE: done */
	const char *message;
	uint64_t bytes;                         /* of the thing */
	uint64_t n_chunks, n_zero, n_there;     /* all; not stored; found in the store already */
	const struct object_manifest *manifest; /* borrowed, while it is told */
	const struct digest *name;              /* the manifest's */
};

typedef void (*transfer_fn)(const struct transfer_result *result, void *arg);

/* Borrows fd until its end; chunks of *m are its own to fill. */
void transfer_upload(struct store_pool *pool, const struct object_keys *keys,
                     const struct object_manifest *m, int fd, const char *scratch_dir,
                     transfer_fn fn, void *arg);

struct transfer_target {
	/* Whether this is wanted: its seal, its size, its class. The file that is to be filled, the
	 * target's; or < 0 with a message. */
	int (*take)(const struct object_manifest *m, char message[200], void *arg);
	transfer_fn done;
	void *arg;
};
void transfer_download(struct store_pool *pool, const struct object_keys *keys,
                       enum object_kind kind, const struct digest *digest, uint64_t generation,
                       const char *scratch_dir, const struct transfer_target *target);
