// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One effect for one idempotency key. A create that comes with a key records which object it makes
 * before that can have an effect; whoever comes with the same key and the same request gets that
 * object, also while it is being made and after a restart. A create of which nothing came frees its
 * key. Keys are kept for a day, and the last ONCE_KEYS_MAX of a project.
 */
#include "base/err.h"

#define ONCE_KEY_MAX  255
#define ONCE_KEYS_MAX 1000

struct fleet;
struct onces;

struct once { /* borrowed */
	const char *key;
	unsigned char digest[32]; /* of method, path and body */
};

must_check int onces_open(struct fleet *fleet, struct err *err);
void onces_close(struct fleet *fleet);
/* 1: *ret_id is the object that was made, borrowed until the loop turns; 0: there is none; < 0: the
 * key belongs to another request. */
must_check int once_find(struct fleet *fleet, const char *project_id, const struct once *once,
                         const char **ret_id, struct err *err);
/* Before the object does anything; once may be NULL. */
must_check int once_put(struct fleet *fleet, const char *project_id, const struct once *once,
                        const char *object_id, struct err *err);
void once_drop(struct fleet *fleet, const char *object_id); /* nothing came of it */
