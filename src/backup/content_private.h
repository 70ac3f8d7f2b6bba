// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The two places that content may be in, as content.c sees them. */
#include "backup/content.h"

#include <uthash.h>

#define MANIFEST_MAX  (256U << 20)
#define MANIFEST_NAME (16 + 1 + 64 + 5) /* "20260131T235959Z-", a digest, ".json" */

struct content_ops {
	int (*has)(const struct content *c, const char *path);
	int (*add)(struct content *c, const char *path, const void *data, size_t len,
	           struct err *err);
	int (*read)(struct content *c, const char *path, struct buf *out, struct err *err);
	int (*commit)(struct content *c, const char *path, const void *data, size_t len,
	              struct err *err);
	/* The manifests' names, in any order. */
	int (*list)(struct content *c, void (*fn)(const char *name, void *arg), void *arg,
	            struct err *err);
	void (*close)(struct content *c);
};

struct known {
	struct digest digest;
	UT_hash_handle hh;
};

struct tar_place { /* of an entry in a file */
	char path[104];
	uint64_t at, len;
	UT_hash_handle hh;
};

struct content {
	const struct content_ops *ops;
	char *path;
	int fd; /* the directory, or the file */
	struct known *known;
	uint64_t added, keep_free;
	struct buf packed;        /* a piece as it is stored */
	struct tar_place *places; /* of a file */
	uint64_t end;             /* of a file that is written */
	bool is_new;              /* a file that has no name yet */
	int lock_fd;              /* of a directory */
};

extern const struct content_ops content_dir, content_tar;
must_check int content_dir_open(struct content *c, bool is_new, struct err *err);
must_check int content_tar_open(struct content *c, bool is_new, struct err *err);
bool content_knows(const struct content *c, const struct digest *digest);
must_check int content_failed(const struct content *c, int errnum, const char *what,
                              struct err *err);
