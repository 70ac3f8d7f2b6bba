// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Where objects lie, as a worker sees it (store_worker.h): a directory that all nodes see, or a
 * bucket. Calls block. Each is tried once: the worker tries again.
 *
 * What is put is encrypted, and its name is made of it or of what it is about. So an object that is
 * there already may stay or be written over: both are right.
 */
#include "base/buf.h"
#include "member/papers/trouble.h"
#include "object/object_listing.h"
#include "object/object_location.h"
#include "object/object_sign.h"

#define STORE_AT_SIZE (OBJECT_KEY_MAX + 1) /* of a place in a listing */

struct store_backend;

struct store_fault { /* why a call has failed */
	enum trouble trouble;
	bool may_pass; /* the same call may work later */
	char message[200];
};

struct store_kind {
	int (*open)(const struct object_location *l, const struct object_credentials *c,
	            struct store_backend **ret);
	/* -EEXIST with is_new: it is there, and was written at *ret_written_us. */
	int (*put)(struct store_backend *b, const char *name, const void *data, size_t len,
	           bool is_new, uint64_t *ret_written_us, struct store_fault *fault);
	/* Appends to out, up to its cap. */
	int (*get)(struct store_backend *b, const char *name, struct buf *out,
	           struct store_fault *fault);
	/* When it was written, by the store's clock; 0: the store does not say. */
	int (*stat)(struct store_backend *b, const char *name, uint64_t *ret_written_us,
	            struct store_fault *fault);
	int (*remove)(struct store_backend *b, const char *name, struct store_fault *fault);
	/* Some of what a folder ("v1/chunks/") has, in no order; a listed key is a whole name.
	 * at: where to begin, "" or what the last call has left there; "" again: that was the last.
	 * A folder that is not there has nothing. */
	int (*list)(struct store_backend *b, const char *folder, char at[STORE_AT_SIZE],
	            object_entry_fn fn, void *arg, struct store_fault *fault);
};
extern const struct store_kind store_directory, store_s3;

/* -1, with the fault. */
int store_fail(struct store_fault *fault, enum trouble trouble, bool may_pass, const char *fmt, ...)
	printf_like(4, 5);
