// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Applies the changes of a fork to its parent: a three-way merge against the snapshot that both
 * come from. If only the fork has changed a path, the parent gets the fork's version; if both have
 * changed it differently, that is a conflict.
 *
 * Both are taken as they are at the time of the call. The parent goes on meanwhile. Before the
 * first path is changed, everything has been received and each path has been checked again. Then
 * path after path is changed within moments, but not atomically: if that fails, the paths that were
 * done stay changed.
 */
#include "build/build.h"
#include "sandbox/fileops/file_call.h"

struct apply;

enum apply_policy {
	APPLY_FAIL,   /* a conflict: nothing is applied */
	APPLY_SKIP,   /* all but the conflicts */
	APPLY_THEIRS, /* the fork's files win */
	APPLY_POLICY_COUNT
};
const char *apply_policy_name(enum apply_policy policy);

struct apply_result {
	bool is_applied;
	uint64_t changes;   /* paths that the fork has changed */
	uint64_t conflicts; /* how many of those the parent has changed too */
};

struct apply_spec {         /* borrowed for the call */
	struct sandbox *to; /* it runs */
	const char *from;   /* id or name of a sandbox or snapshot of the same project */
	const char *base;   /* of a snapshot; NULL: the latest that both come from */
	enum apply_policy policy;
};
struct apply_ops {
	void (*on_conflict)(const struct record *r, void *arg); /* each */
	/* Called once, unless apply_leave() came first; exactly one is NULL. */
	void (*on_end)(const struct apply_result *result, const struct err *err, void *arg);
};
must_check int apply_start(struct builds *bs, const struct apply_spec *spec,
                           const struct apply_ops *ops, void *arg, struct apply **ret,
                           struct err *err);
void apply_leave(struct apply *a); /* the caller is gone: steps that have not begun do not start */
