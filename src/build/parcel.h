// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Parcels: archives that clients send ahead, for a build to unpack in its sandbox before the
 * recipe's commands run.
 *
 *	parcel_expect() --> a token --> parcel_begin() --> parcel_write() … --> parcel_finish()
 *
 * A build makes parcels too, of what its Dockerfile copies from one stage to another
 * (build/carry.h).
 *
 * A parcel is a file of the gateway, a plain or gzipped tar, and only a sandbox's agent parses it.
 * It is known by its project and a hash. A client that announces one gives the hash of its sources,
 * so that it need not send the same again; else it is the hash of its bytes. A client cannot name
 * another project's parcel.
 *
 * It has a temporary name until it is complete, so that a gateway that dies leaves no half parcel.
 * The size of a parcel and of all together are bounded; the oldest of the project that keeps the
 * most is removed first. A token is valid until it is used, the gateway ends, or its project has
 * asked for many more.
 */
#include "base/id.h"
#include "build/build.h"

#define PARCEL_DIR       "/tmp/.parcels" /* inside: each in a directory by its hash */
#define PARCEL_HASH_LEN  64
#define PARCEL_BYTES_MAX (UINT64_C(256) << 20)

bool parcel_is_hash(const char *text);
bool parcel_has(const struct builds *bs, const char *project_id, const char *hash);
/* Makes the token that lets one parcel in; it is given to that key. */
void parcel_expect(struct builds *bs, const char *project_id, const char *key_id, const char *hash,
                   char ret_token[ID_SIZE]);
/* The owner of a token: true with project and key, or false if it is unknown. */
bool parcel_owner(const struct builds *bs, const char *token, char ret_project_id[ID_SIZE],
                  char ret_key_id[ID_SIZE]);

struct parcel_in; /* one that comes */
must_check int parcel_begin(struct builds *bs, const char *token, struct parcel_in **ret,
                            struct err *err);
/* One that nobody has announced: its hash is that of its bytes, in hexadecimal. */
must_check int parcel_begin_own(struct builds *bs, const char *project_id, struct parcel_in **ret,
                                struct err *err);
/* One that a build has made itself, by the name that it has for it. */
must_check int parcel_begin_named(struct builds *bs, const char *project_id, const char *hash,
                                  struct parcel_in **ret, struct err *err);
must_check int parcel_write(struct parcel_in *in, const void *data, size_t len, struct err *err);
/* Frees it, whatever it gives; tells its hash. */
must_check int parcel_finish(struct parcel_in *in, char ret_hash[PARCEL_HASH_LEN + 1],
                             struct err *err);
void parcel_drop(struct parcel_in *in); /* the same; NULL is fine */

/* Opens it for reading; *ret_gzip: it is gzipped. Returns an fd, which the caller closes. */
must_check int parcel_open(const struct builds *bs, const char *project_id, const char *hash,
                           bool *ret_gzip, struct err *err);
/* Called once, at the start: removes what an earlier gateway left half-written. */
void parcels_settle(struct builds *bs);
void parcels_close(struct builds *bs);
