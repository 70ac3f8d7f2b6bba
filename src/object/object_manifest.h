// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a stored thing is and which chunks it is made of. On the store it is encrypted as chunks are
 * (object_keys.h); inside it is of fixed fields, little-endian:
 *
 *	"clomanf1"  kind u32  n_bases u32  n_chunks u32  zero u32  size u64  generation u64
 *	digest 32   class 32  seal 32      bases 32 each          chunks 32 each
 *
 * It has no path, no name and no text. Its reader takes exactly what its writer makes: all chunks
 * but the last are 4 MiB, so their number follows from the size. The whole digest is the broker's
 * to check, behind the last chunk. Pure: no I/O.
 */
#include "object/object_keys.h"
#include "object/object_seal.h"

#define OBJECT_SIZE_MAX      ((uint64_t)256 << 30)
#define OBJECT_CHUNKS_MAX    (OBJECT_SIZE_MAX / OBJECT_CHUNK)
#define OBJECT_BASES_MAX     8
#define OBJECT_MANIFEST_HEAD 136
#define OBJECT_MANIFEST_MAX                                                                        \
	(OBJECT_MANIFEST_HEAD + (OBJECT_BASES_MAX + OBJECT_CHUNKS_MAX) * DIGEST_LEN)

struct object_manifest {
	struct object_claim claim;
	struct digest seal;
	struct digest bases[OBJECT_BASES_MAX]; /* of an image */
	size_t n_bases;
	struct digest *chunks; /* zero: of zeros alone, and not stored */
	size_t n_chunks;
};

void object_manifest_done(struct object_manifest *m); /* twice is fine */
size_t object_chunks_of(uint64_t size);
/* Of a chunk of a thing of this size. */
size_t object_chunk_len(uint64_t size, size_t chunk);
must_check int object_manifest_write(const struct object_manifest *m, struct buf *out);
/* -EBADMSG: it is none. On failure *ret owns nothing. */
must_check int object_manifest_read(const void *data, size_t len, struct object_manifest *ret);
/* What its object is called. */
void object_manifest_name(const struct object_keys *k, enum object_kind kind,
                          const struct digest *digest, uint64_t generation, struct digest *ret);
