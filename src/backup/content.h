// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The storage of backups: pieces of content, each named by its SHA-256, and manifests that list
 * them. A directory holds any number of backups, which share their pieces; a file (a tar with the
 * same names) holds one.
 *
 *	chunks/ab/abcd…		a piece, compressed by zstd; the digest is of what it holds
 *	backups/TIME-DIGEST.json	a manifest; the digest is of its own text
 *	lock			held by a process that changes or reads the directory
 *
 * A manifest gets its name last, when all its pieces are on disk, so an interrupted backup has
 * none. The next backup reuses only pieces that a manifest lists: any others may be half written.
 */
#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"

#define CHUNK_MAX (4U << 20)

struct content;

/* For a new backup. path is a directory, which is made if needed, or, if it ends in ".tar", a file
 * that does not exist yet. */
must_check int content_create(const char *path, struct content **ret, struct err *err);
must_check int content_open(const char *path, struct content **ret, struct err *err); /* to read */
void content_close(struct content *c); /* drops what was not committed */
DEFINE_FREEP(struct content, content_close)

/* Marks a piece as present, so that it is not stored again. */
void content_know(struct content *c, const struct digest *digest);
bool content_has(const struct content *c, const struct digest *digest); /* and it is there */
must_check int content_put(struct content *c, const void *data, size_t len, struct digest *ret,
                           struct err *err);
/* Replaces the contents of out, at most CHUNK_MAX bytes. Fails if the piece does not match its
 * digest. */
must_check int content_get(struct content *c, const struct digest *digest, struct buf *out,
                           struct err *err);
uint64_t content_added(const struct content *c); /* bytes written by content_put() */
/* No piece is stored while less than this is free on its disk. */
void content_keep_free(struct content *c, uint64_t bytes);

/* Syncs everything to disk, then gives the manifest its name. */
must_check int content_commit(struct content *c, uint64_t at_us, const char *text, size_t len,
                              struct err *err);
/* Calls fn with the name of each manifest, oldest first. Stops when fn returns < 0. */
must_check int content_each(struct content *c,
                            int (*fn)(const char *name, void *arg, struct err *err), void *arg,
                            struct err *err);
/* Reads a manifest and checks it against the digest in its name. */
must_check int content_read(struct content *c, const char *name, struct buf *out, struct err *err);
/* For a directory: removes a manifest; and removes all pieces that are not marked as present. */
must_check int content_forget(struct content *c, const char *name, struct err *err);
must_check int content_prune(struct content *c, uint64_t *ret_bytes, struct err *err);
