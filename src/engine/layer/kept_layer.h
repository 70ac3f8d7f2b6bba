// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Layers that outlive their guest. The mark is a file in the layer itself, so both appear and
 * vanish in one step. It holds the number of its keeper, the store that has the sandbox's record. A
 * daemon may remove a layer of its own store that has no record; it must not touch a layer of
 * another store (say, because the database was moved away).
 *
 * The mark is beside the overlay's directories, where no path from inside a sandbox leads. It is
 * written with the layer and reaches the disk no later than what the sandbox writes; the gateway
 * acknowledges a kept layer when it is on disk (MSG_SYNC).
 */
#include "engine/layer/storage.h"

must_check int kept_layer_mark(int layer_fd, uint64_t keeper, struct err *err);
/* 1: *ret is its keeper. If the mark is damaged, it is UINT64_MAX, which no store has; the layer
 * then stays, since the gateway knows whether it is wanted. 0: there is no layer or no mark. < 0:
 * not known, so nothing may be removed. */
must_check int kept_layer_read(const struct storage *s, const char *id, uint64_t *ret);
must_check int kept_layer_drop(const struct storage *s, const char *id); /* the mark alone */
/* Opens the layer of this id, to start over it, and sets its limit anew. */
must_check int kept_layer_reopen(const struct storage *s, const char *id, uint64_t disk_bytes,
                                 int *ret_fd, struct err *err);
/* 1: *ret_pidfd is a child that syncs the layers to disk; or < 0. */
must_check int kept_layer_sync_start(const struct storage *s, int *ret_pidfd);
/* keeper is UINT64_MAX, which no store has, if it is not known. */
void kept_layer_each(const struct storage *s,
                     void (*fn)(const char *id, uint64_t keeper, void *arg), void *arg);
