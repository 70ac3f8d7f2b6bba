// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a sandbox gets of the CPU beside the others. To the kernel each is a group of its own, so an
 * owner, a project, would have as many parts as it has busy sandboxes. Here an owner's part is
 * divided by how many of its sandboxes are busy, as they are seen to be a few times a second:
 *
 *	weight of a sandbox = weight of its owner / busy sandboxes of that
 *
 * Busy ones are counted by what they use: as many as the busiest one would go into what all of them
 * together have used. So a thousand idle ones take nothing from the one that works, and nobody says
 * of himself that he is idle.
 *
 * While one owner alone has sandboxes all have the kernel's usual weight, and nothing is read or
 * written. Those that are begun for nobody have that, too: an eighth of an owner's that is beside
 * others, so that they wait for those who work. What is begun for somebody counts as his, and those
 * that he has begun at once share his part as busy ones do; what is begun ahead for him, while
 * nobody waits for it, has a quarter of that.
 */
#include "engine/engine.h"

#define WEIGH_USUAL 1024 /* the kernel's weight of a new group, by v1's measure */

struct guest;
struct loop;
struct owner;

struct weigh {
	struct guest_host *host;
	struct loop_timer *look;
	struct owner *owners; /* by number */
	uint64_t looked_us;
	uint64_t used_ns; /* by all, at the last look */
};

void weigh_open(struct weigh *w, struct guest_host *host);
void weigh_close(struct weigh *w); /* zeros are fine */
/* For whom it works, and the owner's weight from now on. One that neither starts nor runs is left
 * alone. */
void weigh_assign(struct weigh *w, struct guest *g, uint64_t owner, uint32_t weight, bool is_ahead);
void weigh_leave(struct weigh *w, struct guest *g); /* before it is freed */
