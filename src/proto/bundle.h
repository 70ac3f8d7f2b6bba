// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A bundle: changes to a tree of files as one stream (docs/bundle.md). A fork's changes go to its
 * parent in this form, and an exported snapshot is the changes to its template.
 *
 *	"cloche bundle 1\n", then records: u32 length | u8 kind | so many bytes less one
 *
 * The last record has the SHA-256 of all before it. Decoding is strict, since the bytes are
 * untrusted: a path is absolute and has no ".", ".." or empty name, and the kind of a file is one
 * that a sandbox could make itself.
 */
#include "proto/pack.h"

#define BUNDLE_MAGIC      "cloche bundle 1\n"
#define BUNDLE_MAGIC_SIZE 16
#define BUNDLE_RECORD_MAX (256 * 1024) /* with its length */
#define BUNDLE_DATA_MAX   (64 * 1024)
#define BUNDLE_PATH_MAX   (64 * 1024)
#define BUNDLE_TEXT_MAX   (64 * 1024)
#define BUNDLE_DIGEST     32

enum bundle_kind {
	BUNDLE_TEXT = 1,  /* a description by its maker; comes first if there is one */
	BUNDLE_ENTRY,     /* from here on there is this at path */
	BUNDLE_ATTRIBUTE, /* of the entry before */
	BUNDLE_DATA,      /* likewise, of a regular file; the rest are holes */
	BUNDLE_DELETE,    /* from here on there is nothing at path */
	BUNDLE_END,
};

struct bundle_seen { /* what was at a path when the bundle was made; mode 0: nothing */
	uint32_t mode;
	uint64_t size, mtime_ns;
};

struct bundle_record {
	enum bundle_kind kind;
	char *path;      /* entry, delete */
	bool is_checked; /* likewise: `seen` must still hold when it is applied */
	struct bundle_seen seen;
	uint32_t mode, uid, gid; /* entry */
	uint64_t size, mtime_ns;
	char *target;     /* of a symbolic link; with is_link: the path of an earlier entry */
	bool is_link;     /* another name of that entry's file */
	char *name;       /* attribute */
	uint64_t offset;  /* data */
	const void *data; /* text, attribute, data, end; borrowed from the bytes */
	size_t len;
};

void bundle_record_done(struct bundle_record *r);
/* -EINVAL if bundle_decode() would refuse it; -E2BIG if there is no room, and out is unchanged. */
must_check int bundle_encode(const struct bundle_record *r, struct buf *out);
/* 1 with *ret, whose strings the caller owns, and *ret_used bytes to drop; 0 if more bytes are
 * needed; -EPROTO. */
must_check int bundle_decode(const void *data, size_t len, struct bundle_record *ret,
                             size_t *ret_used);
bool bundle_path_is_good(const char *path);
