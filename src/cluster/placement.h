// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Placement: which node makes a sandbox. No I/O, no clock, and randomness is given by the caller.
 *
 * A create stays on the node that it came to, unless that one has no room or is clearly worse off
 * than the others; then the better of a few random nodes makes it, if it is better. Nobody looks at
 * all nodes: with every beat's answer come the figures of PLACEMENT_SAMPLE random ones. They are
 * some seconds old, so who took the emptiest of all would take the same one as everybody else.
 *
 * The figures of a node that this one has just sent creates to are newer: each reply brings
 * them, and what is under way is added. The chosen node checks for itself and may refuse; its
 * refusal excludes it, and the next try is made, PLACEMENT_TRIES_MAX in all.
 *
 * A score is how full a node would be, in thousandths: of CPU, memory and disk the fullest, then
 * a little more or less for what else is good or bad.
 */
#include "base/auto.h"

#include <stdbool.h>
#include <stdint.h>

#define PLACEMENT_SAMPLE    16
#define PLACEMENT_TRIES_MAX 3

enum placement_what {
	PLACEMENT_CPU_MILLI,
	PLACEMENT_MEMORY_MIB,
	PLACEMENT_DISK_MIB,
	PLACEMENT_WHAT_COUNT
};

struct placement_figures {
	uint64_t version; /* counted by the node: the higher one is newer */
	uint64_t capacity[PLACEMENT_WHAT_COUNT], committed[PLACEMENT_WHAT_COUNT];
};

/* A node as the one that places sees it. */
struct placement_node {
	uint32_t node;
	bool is_cordoned;   /* or draining: takes nothing new */
	uint64_t abilities; /* engines, grades and labels, a bit each */
	struct placement_figures figures;
	uint64_t under_way[PLACEMENT_WHAT_COUNT]; /* sent there and not answered */
	/* As for this create: */
	bool has_spare, has_image, has_lease;
	uint32_t above_even; /* how many more of the project are there than an even spread would put
	                      */
};

struct placement_need {
	uint64_t of[PLACEMENT_WHAT_COUNT];
	uint64_t abilities; /* all of these */
	uint32_t only_node; /* where its volume is; 0 = anywhere */
};

/* In thousandths of a node. */
struct placement_rules {
	uint32_t choices;   /* of how many the best is taken */
	uint32_t tolerance; /* how much worse than the mean a node may be and still keep creates */
	uint32_t no_spare, no_image;
	uint32_t lease;      /* the bonus of who has quota of the project already */
	uint32_t spread_max; /* one for each above an even spread of the project, at most */
};
extern const struct placement_rules placement_usual;

struct placement_view {
	struct placement_node nodes[PLACEMENT_SAMPLE];
	unsigned n;
};

/* A beat's answer: replaces the view. What is known better of a node that stays is kept. */
void placement_sampled(struct placement_view *view, const struct placement_node *nodes, unsigned n);
/* A create is sent there, and is answered: with the node's figures, or NULL if it gave none. Nodes
 * that are not in the view are passed over. */
void placement_sent(struct placement_view *view, uint32_t node, const struct placement_need *need);
void placement_answered(struct placement_view *view, uint32_t node,
                        const struct placement_need *need, const struct placement_figures *figures);

bool placement_fits(const struct placement_node *node, const struct placement_need *need);
uint32_t placement_score(const struct placement_rules *rules, const struct placement_node *node,
                         const struct placement_need *need);

/* Whether the create stays, in which case self is returned, or the node that it goes to; 0: nobody
 * has room, as far as is known here. tried: those that refused. random: any number, drawn anew for
 * each call. */
uint32_t placement_choose(const struct placement_rules *rules, const struct placement_node *self,
                          const struct placement_view *view, const struct placement_need *need,
                          const uint32_t *tried, unsigned n_tried, uint64_t random);
