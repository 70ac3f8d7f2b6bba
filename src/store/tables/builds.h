// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The rows of builds, and of the cached results of their steps. */
#include "store/store.h"

struct build_row {
	const char *id, *project_id;
	uint64_t created_us;
	const char *json; /* all else, written and read by src/build */
};

struct build_cache_row {
	const char *key;   /* of the step and all that it depends on */
	const char *image; /* the digest that came out */
	uint64_t bytes;
	uint64_t used_us;
	const char *json; /* the step's report */
};

struct store_builds; /* the statements, prepared; to be closed before the store is */
must_check int store_builds_open(struct store *st, struct store_builds **ret, struct err *err);
void store_builds_close(struct store_builds *sb); /* NULL is fine */

must_check int store_builds_put(struct store_builds *sb, const struct build_row *row,
                                struct err *err);
must_check int store_builds_remove(struct store_builds *sb, const char *id, struct err *err);
/* In order of creation; fn returning < 0 ends the walk and is the result. */
must_check int store_builds_each(struct store_builds *sb,
                                 int (*fn)(const struct build_row *row, void *arg), void *arg,
                                 struct err *err);

must_check int store_build_cache_put(struct store_builds *sb, const struct build_cache_row *row,
                                     struct err *err);
must_check int store_build_cache_remove(struct store_builds *sb, const char *key, struct err *err);
/* The least recently used first. */
must_check int store_build_cache_each(struct store_builds *sb,
                                      int (*fn)(const struct build_cache_row *row, void *arg),
                                      void *arg, struct err *err);
