// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What is stored outside is cut into chunks of 4 MiB, and each is encrypted. Pure: no I/O.
 *
 *	cluster's key ── wraps ──► a project's key ──► its name key, its data key
 *
 *	name of a chunk    HMAC-SHA-256 of its bytes, by the name key
 *	stored as          AES-256-GCM of its bytes, by a key of its own: HMAC of the name, by the
 *	                   data key
 *
 * So equal bytes of one project have the same name and the same stored form: they are stored once,
 * and putting them twice does no harm. Equal bytes of two projects have nothing in common, and a
 * name says nothing to who has not the key. (With a name and a key made of the bytes alone, who
 * guesses what another has stored could see whether it is there.)
 *
 * A key encrypts one text only, as another text has another name; so the nonce is fixed. Opening
 * checks the tag, and then that the bytes have the name that was asked for.
 *
 * A manifest (object_manifest.h) is found by what it is about: its name is the HMAC of kind, digest
 * and generation. Its nonce is random.
 */
#include "base/buf.h"
#include "base/digest.h"

#define OBJECT_CHUNK        ((size_t)4 << 20)
#define OBJECT_KEY          32
#define OBJECT_TAG          16
#define OBJECT_NONCE        12
#define OBJECT_STORED_MAX   (OBJECT_CHUNK + OBJECT_TAG)              /* of a chunk */
#define OBJECT_WRAPPED      (OBJECT_NONCE + OBJECT_KEY + OBJECT_TAG) /* of a project's key */
#define OBJECT_WRAPPED_TEXT ((OBJECT_WRAPPED + 2) / 3 * 4 + 1)       /* base64, with its NUL */

struct object_keys { /* of one project */
	struct digest name, data;
};

void object_keys_derive(const uint8_t project_key[OBJECT_KEY], struct object_keys *ret);
void object_keys_wipe(struct object_keys *k);
/* The project's key as it may lie in a database: only the cluster's key opens it, and only for this
 * cluster and project. -EBADMSG. */
must_check int object_key_wrap(const uint8_t cluster_key[OBJECT_KEY], const char *cluster_id,
                               const char *project_id, const uint8_t key[OBJECT_KEY],
                               char ret[OBJECT_WRAPPED_TEXT]);
must_check int object_key_unwrap(const uint8_t cluster_key[OBJECT_KEY], const char *cluster_id,
                                 const char *project_id, const char *wrapped,
                                 uint8_t ret[OBJECT_KEY]);

/* len is 1 to OBJECT_CHUNK. A chunk of zeros alone is not stored: its name is zero. */
void object_chunk_name(const struct object_keys *k, const void *data, size_t len,
                       struct digest *ret);
/* Room for len + OBJECT_TAG. */
must_check int object_chunk_seal(const struct object_keys *k, const struct digest *name,
                                 const void *data, size_t len, void *ret);
/* Room for len - OBJECT_TAG. -EBADMSG: these are not the bytes of that name; ret has nothing then.
 */
must_check int object_chunk_open(const struct object_keys *k, const struct digest *name,
                                 const void *stored, size_t len, void *ret);

must_check int object_manifest_seal(const struct object_keys *k, const struct digest *name,
                                    const void *text, size_t len, struct buf *out);
must_check int object_manifest_open(const struct object_keys *k, const struct digest *name,
                                    const void *stored, size_t len, struct buf *out);
