// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Saves a machine while it is stopped for a moment, as jail/memory/memory.h does with a jail:
 *
 *	asked --> still: cloche-vmm has stopped it, its devices are written
 *	      --> copied: a child has read its memory --> still() is told
 *	      --> released: it goes on --> hashed --> done()
 *
 * It goes on when the ask (ask.h) ends, also by the death of the broker.
 */
#include "engine/guest/guest_kind.h"

/* dir_fd: an empty directory (saved.h), or -1: only its disk must be consistent. snapshot: its
 * id. */
must_check int machine_save(struct guest *g, int dir_fd, const struct snapshot_spec *snapshot,
                            const struct memory_ops *ops, void *arg, struct err *err);
void machine_release(struct guest *g);   /* behind still() */
void machine_go_on(struct guest *g);     /* after done(), for a guest that was not to go on */
void machine_drop_save(struct guest *g); /* the guest is to be removed */
