// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a backup is copied from: the database and all that is kept, frozen as they were at one
 * moment, as long as the client stays connected. There is one at a time. All of this is on the
 * loop's thread.
 */
#include "sandbox/fleet/fleet.h"

struct backup_info {
	char id[ID_SIZE];        /* of kind "bk" */
	const char *database;    /* its path, from the gateway's root on; borrowed for the call */
	uint64_t database_bytes; /* of that file */
	uint64_t at_us;          /* the moment, by the wall clock */
	struct backup_counts counts; /* of what is frozen at the broker */
	size_t left_out;             /* running sandboxes that are not kept */
};

/* Called once, from the loop, unless backup_end() came first. With err it is over. */
typedef void (*backup_ready_fn)(const struct backup_info *info, const struct err *err, void *arg);

must_check int backup_begin(struct fleet *fleet, backup_ready_fn fn, void *arg, struct err *err);
/* The client is done, or has left. May be called in any state; the frozen copies are removed in the
 * background. */
void backup_end(struct fleet *fleet);
