// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Files that travel between nodes of a cluster. Nothing on the host interprets them: the agent in a
 * sandbox unpacks them (proto/bundle.h). They have no name in any directory.
 *
 *	made here	open: an empty file, filled by the gateway ─► close: hashed, sealed
 *	from elsewhere	open: the seal is checked, and room; an empty file, filled by the member
 *			─► close: it is what was sealed
 *
 * After close the file can only be read: a lease on it proves that nobody can write any more. Until
 * then its size is watched (file_limit.h), because the process that fills it may write more than
 * announced. If the broker ends, so do its files.
 */
#include "engine/engine.h"

must_check int sealed_file_open(struct guest_host *host, const struct sealed_file_spec *spec,
                                int *ret_fd, struct err *err);
must_check int sealed_file_close(struct guest_host *host, uint64_t number, sealed_file_fn fn,
                                 void *arg, struct err *err);
void sealed_file_drop(struct guest_host *host, uint64_t number); /* unknown: fine */
void sealed_files_end_all(struct guest_host *host); /* the broker stops: nobody is told */
