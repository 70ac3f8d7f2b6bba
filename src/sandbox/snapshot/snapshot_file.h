// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The files of a snapshot as one file of the broker's (engine/template/sealed_file.h), on its way
 * to another node or from there.
 *
 *	snapshot_file_open()	an empty one, for the caller or the member to fill
 *	snapshot_file_close()	it is full, and nobody has it open for writing any more
 */
#include "engine/engine.h"

struct fleet;
struct snapshot_file;

/* From the loop, once. fd: the callee may take it; -1 with an err. result: of a close. */
typedef void (*snapshot_file_fn)(int *fd, const struct sealed_file_result *result,
                                 const struct err *err, void *arg);

/* spec: its number is filled in here. After an error, here or by fn, *ret is gone. */
must_check int snapshot_file_open(struct fleet *fleet, const struct sealed_file_spec *spec,
                                  snapshot_file_fn fn, void *arg, struct snapshot_file **ret,
                                  struct err *err);
/* By the call of fn it is gone; after an error of this call, at once. */
must_check int snapshot_file_close(struct snapshot_file *f, snapshot_file_fn fn, void *arg,
                                   struct err *err);
void snapshot_file_drop(struct snapshot_file *f); /* fn is not called; NULL is fine */
