// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Where backups are: pieces of content, each under its SHA-256, and manifests that name them. A
 * directory holds any number of backups, which share their pieces; a file (a tar of the same names)
 * holds one.
 *
 *	chunks/ab/abcd…		a piece, compressed by zstd; the digest is of what it holds
 *	backups/TIME-DIGEST.json	a manifest; the digest is of its own text
 *	lock			held by who changes the directory, or reads it
 *
 * A manifest gets its name last, when all that it names is on disk: a backup that was interrupted
 * has none. Only pieces that a manifest names are taken for there by the next backup: what else
 *lies about may be half written.
 */
#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"

#define CHUNK_MAX (4U << 20)

struct content;

/* For a new backup. path: a directory, which is made; or a file that is not there, by the ending
 * ".tar". */
must_check int content_create(const char *path, struct content **ret, struct err *err);
must_check int content_open(const char *path, struct content **ret, struct err *err); /* to read */
void content_close(struct content *c); /* what was not committed is forgotten */
DEFINE_FREEP(struct content, content_close)

/* It will not be stored again. */
void content_know(struct content *c, const struct digest *digest);
bool content_has(const struct content *c, const struct digest *digest); /* and it is there */
must_check int content_put(struct content *c, const void *data, size_t len, struct digest *ret,
                           struct err *err);
/* Replaces what out holds, at most CHUNK_MAX bytes. What does not match its digest is an error. */
must_check int content_get(struct content *c, const struct digest *digest, struct buf *out,
                           struct err *err);
uint64_t content_added(const struct content *c); /* bytes written by content_put() */
/* Pieces are not stored while less than that is free where they go. */
void content_keep_free(struct content *c, uint64_t bytes);

/* Everything to disk, then the manifest under its name. */
must_check int content_commit(struct content *c, uint64_t at_us, const char *text, size_t len,
                              struct err *err);
/* Calls fn with the name of each manifest, oldest first. Ends at the first fn that gives < 0. */
must_check int content_each(struct content *c,
                            int (*fn)(const char *name, void *arg, struct err *err), void *arg,
                            struct err *err);
/* A manifest's text, held against the digest in its name. */
must_check int content_read(struct content *c, const char *name, struct buf *out, struct err *err);
/* Of a directory: removes a manifest; and all pieces that are not known. */
must_check int content_forget(struct content *c, const char *name, struct err *err);
must_check int content_prune(struct content *c, uint64_t *ret_bytes, struct err *err);
