// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Layers that outlive their guest. The mark is a file in the layer itself, so that it comes and
 * goes with it in one step. It holds the number of its keeper, the store that has the sandbox's
 * record: a daemon that finds a layer of its own store without a record may remove it, one of
 * another store (the database was moved away, say) it must leave alone.
 *
 * The mark lies beside the overlay's directories, where no path from inside a sandbox leads. It is
 * written with the layer and reaches the disk with what the sandbox writes later, or before it; the
 * gateway acknowledges a kept layer when it is there (MSG_SYNC).
 */
#include "engine/layer/storage.h"

must_check int kept_layer_mark(int layer_fd, uint64_t keeper, struct err *err);
/* 1: *ret is its keeper, or UINT64_MAX, which is no store's number, where the mark is damaged: the
 * layer stays, for the gateway knows whether it is wanted. 0: there is no layer or no mark. < 0: it
 * cannot be told, so nothing may go. */
must_check int kept_layer_read(const struct storage *s, const char *id, uint64_t *ret);
must_check int kept_layer_drop(const struct storage *s, const char *id); /* the mark alone */
/* The layer under this id, to start over; its limit is set anew. */
must_check int kept_layer_reopen(const struct storage *s, const char *id, uint64_t disk_bytes,
                                 int *ret_fd, struct err *err);
/* 1: *ret_pidfd is a child that brings what the layers hold to disk; or < 0. */
must_check int kept_layer_sync_start(const struct storage *s, int *ret_pidfd);
/* keeper: UINT64_MAX where it cannot be told, which is no store's number. */
void kept_layer_each(const struct storage *s,
                     void (*fn)(const char *id, uint64_t keeper, void *arg), void *arg);
