// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The fence as others see it (fence.h): when another node may be taken for fenced, and for lost.
 *
 * Every node watches the three that follow it. The answer to its own beat tells the number of their
 * newest beats, and it counts, by its own steady clock, for how long that number has been the same.
 * A number that was in an answer was sent by the watched node before that answer came, so
 * the count begins no earlier than the right of that beat.
 *
 * Who wants to act calls the database with the number that was seen. The database does it
 * only if this is still the newest, and locks that row: either the beat comes first or the
 * takeover. So the database's clock decides nothing, and a step of it does no harm.
 *
 * Beats are stored without waiting for the disk, so a database that was started anew or promoted
 * may have forgotten some that it had answered. `server` says which start and timeline an answer is
 * of; with another one the count begins again.
 */
#include "cluster/fence.h"

struct watch {
	uint32_t node; /* the watched; 0 = none yet */
	uint64_t epoch, number, server;
	uint64_t since_us; /* when it was first seen so */
};

/* An answer has come: received_us is when, not when it was asked for. */
void watch_saw(struct watch *w, uint32_t node, uint64_t epoch, uint64_t number, uint64_t server,
               uint64_t received_us);
/* Its `restore` sandboxes may be claimed. */
bool watch_may_claim(const struct watch *w, const struct fence_rules *rules, uint64_t now_us);
/* It counts as lost: what it holds is free. */
bool watch_is_lost(const struct watch *w, const struct fence_rules *rules, uint64_t now_us);
