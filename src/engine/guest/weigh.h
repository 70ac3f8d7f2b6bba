// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Divides the CPU among sandboxes. For the kernel each is a cgroup, so an owner (a project) would
 * get as many parts as it has busy sandboxes. Here the owner's part is divided by the number of its
 * busy sandboxes, which is measured a few times a second:
 *
 *	weight of a sandbox = weight of its owner / busy sandboxes of that
 *
 * The number of busy sandboxes is the CPU time that all of them used, divided by that of the
 * busiest one. So a thousand idle sandboxes take nothing from one that works, and nobody has to
 * declare itself idle.
 *
 * An owner that uses less than its part is *modest*, and weighs eight times as much. Whoever takes
 * all that there is, is *greedy*. So the few milliseconds of a modest owner are not waited for
 * behind a greedy one's, although both have the same part: the kernel divides each CPU by itself,
 * and what a modest owner leaves is the greedy one's in any case. An owner that uses more than its
 * part twice in a row is greedy, and modest again after two seconds below it. Of two that take what
 * they can, both are greedy, and are equal.
 *
 * While only one owner has sandboxes, all have the kernel's default weight, and nothing is read or
 * written. Sandboxes that are started for no owner have that weight too: it is an eighth of an
 * owner's weight when there are several, so they yield to those that work. A sandbox that is
 * started for an owner counts as the owner's, and those that start at once share its part like busy
 * ones. A sandbox that is made ahead, while nobody waits for it, has a quarter of that.
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
/* Sets the owner of a guest, and the owner's weight from now on. A guest that neither starts nor
 * runs is ignored. */
void weigh_assign(struct weigh *w, struct guest *g, uint64_t owner, uint32_t weight, bool is_ahead);
void weigh_leave(struct weigh *w, struct guest *g); /* before it is freed */
