// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Parcels: archives that clients send ahead, for a build to unpack in its sandbox before the
 * recipe's commands run.
 *
 *	parcel_expect() --> a token --> parcel_begin() --> parcel_write() … --> parcel_finish()
 *
 * One is a file of the gateway's own, plain or gzipped tar, which nobody reads but a sandbox's
 * agent. It is known by its project and a hash that is the client's word: of what it was made from,
 * so that whoever has the same again needs not send it. Another project's cannot be named.
 *
 * Written under a name of its own until it is whole, so that a gateway that dies leaves none that
 * could be taken for one. Both a parcel and all of them together are bounded; of the project that
 *keeps the most, the oldest goes first. A token is good until it was used, a gateway ends, or its
 *project has asked for many more.
 */
#include "base/id.h"
#include "build/build.h"

#define PARCEL_DIR       "/tmp/.parcels" /* inside: each in a directory by its hash */
#define PARCEL_HASH_LEN  64
#define PARCEL_BYTES_MAX (UINT64_C(256) << 20)

bool parcel_is_hash(const char *text);
bool parcel_has(const struct builds *bs, const char *project_id, const char *hash);
/* The word that lets one come in, which is given to that key. */
void parcel_expect(struct builds *bs, const char *project_id, const char *key_id, const char *hash,
                   char ret_token[ID_SIZE]);
/* Whose it is: true with project and key, or false: nobody's. */
bool parcel_owner(const struct builds *bs, const char *token, char ret_project_id[ID_SIZE],
                  char ret_key_id[ID_SIZE]);

struct parcel_in; /* one that comes */
must_check int parcel_begin(struct builds *bs, const char *token, struct parcel_in **ret,
                            struct err *err);
must_check int parcel_write(struct parcel_in *in, const void *data, size_t len, struct err *err);
must_check int parcel_finish(struct parcel_in *in,
                             struct err *err); /* frees it, whatever it gives */
void parcel_drop(struct parcel_in *in);        /* the same; NULL is fine */

/* To be read; *ret_gzip: it is gzipped. The caller closes the fd that it gives. */
must_check int parcel_open(const struct builds *bs, const char *project_id, const char *hash,
                           bool *ret_gzip, struct err *err);
/* Once, at the start: what an earlier gateway left half-written goes. */
void parcels_settle(struct builds *bs);
void parcels_close(struct builds *bs);
