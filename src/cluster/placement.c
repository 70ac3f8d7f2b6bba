// SPDX-License-Identifier: Apache-2.0
#include "cluster/placement.h"

#include <assert.h>
#include <string.h>

/* Found by tests/cluster (docs/design/cluster.md has the curves). */
const struct placement_rules placement_usual = {
	.choices = 2,
	.tolerance = 50,
	.no_spare = 10,
	.no_image = 30,
	.lease = 10,
	.spread_max = 50,
};

static struct placement_node *find(struct placement_view *view, uint32_t node)
{
	for (unsigned i = 0; i < view->n; i++) {
		if (view->nodes[i].node == node)
			return &view->nodes[i];
	}
	return NULL;
}

void placement_sampled(struct placement_view *view, const struct placement_node *nodes, unsigned n)
{
	struct placement_view next = {.n = MIN(n, PLACEMENT_SAMPLE)};

	for (unsigned i = 0; i < next.n; i++) {
		const struct placement_node *known = find(view, nodes[i].node);

		next.nodes[i] = nodes[i];
		if (!known)
			continue;
		memcpy(next.nodes[i].under_way, known->under_way, sizeof(known->under_way));
		if (known->figures.version > nodes[i].figures.version)
			next.nodes[i].figures = known->figures;
	}
	*view = next;
}

void placement_sent(struct placement_view *view, uint32_t node, const struct placement_need *need)
{
	struct placement_node *to = find(view, node);

	if (!to)
		return;
	for (int i = 0; i < PLACEMENT_WHAT_COUNT; i++)
		to->under_way[i] += need->of[i];
}

void placement_answered(struct placement_view *view, uint32_t node,
                        const struct placement_need *need, const struct placement_figures *figures)
{
	struct placement_node *to = find(view, node);

	if (!to)
		return;
	/* It may have been sent before the node came into the view. */
	for (int i = 0; i < PLACEMENT_WHAT_COUNT; i++)
		to->under_way[i] -= MIN(to->under_way[i], need->of[i]);
	if (figures && figures->version > to->figures.version)
		to->figures = *figures;
}

static uint64_t would_have(const struct placement_node *node, const struct placement_need *need,
                           int what)
{
	return node->figures.committed[what] + node->under_way[what] + need->of[what];
}

static bool is_able(const struct placement_node *node, const struct placement_need *need)
{
	return !node->is_cordoned && (node->abilities & need->abilities) == need->abilities &&
	       (need->only_node == 0 || need->only_node == node->node);
}

bool placement_fits(const struct placement_node *node, const struct placement_need *need)
{
	if (!is_able(node, need))
		return false;
	for (int i = 0; i < PLACEMENT_WHAT_COUNT; i++) {
		if (need->of[i] > 0 && would_have(node, need, i) > node->figures.capacity[i])
			return false;
	}
	return true;
}

uint32_t placement_score(const struct placement_rules *rules, const struct placement_node *node,
                         const struct placement_need *need)
{
	uint64_t score = 0;

	for (int i = 0; i < PLACEMENT_WHAT_COUNT; i++) {
		uint64_t capacity = MAX(node->figures.capacity[i], 1);

		score = MAX(score, would_have(node, need, i) * 1000 / capacity);
	}
	score += (node->has_spare ? 0 : rules->no_spare) + (node->has_image ? 0 : rules->no_image) +
	         (node->has_lease ? 0 : rules->lease) + MIN(node->above_even, rules->spread_max);
	return (uint32_t)MIN(score, UINT32_MAX);
}

static bool is_in(uint32_t node, const uint32_t *nodes, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (nodes[i] == node)
			return true;
	}
	return false;
}

/* Whether self is worse off than the mean of those that could make it, by more than the tolerance.
 * Who is full counts for the mean, too: else a full cluster would look like an empty one. */
static bool is_worse_off(const struct placement_rules *rules, const struct placement_node *self,
                         const struct placement_view *view, const struct placement_need *need)
{
	uint64_t sum = 0, n = 0;

	for (unsigned i = 0; i < view->n; i++) {
		if (!is_able(&view->nodes[i], need))
			continue;
		sum += placement_score(rules, &view->nodes[i], need);
		n++;
	}
	return n > 0 && placement_score(rules, self, need) * n > sum + rules->tolerance * n;
}

uint32_t placement_choose(const struct placement_rules *rules, const struct placement_node *self,
                          const struct placement_view *view, const struct placement_need *need,
                          const uint32_t *tried, unsigned n_tried, uint64_t random)
{
	const struct placement_node *fit[PLACEMENT_SAMPLE], *best = NULL;
	bool fits_here = placement_fits(self, need) && !is_in(self->node, tried, n_tried);
	unsigned n = 0;

	assert(rules->choices > 0);
	if (fits_here && !is_worse_off(rules, self, view, need))
		return self->node;
	for (unsigned i = 0; i < view->n; i++) {
		const struct placement_node *node = &view->nodes[i];

		if (node->node != self->node && !is_in(node->node, tried, n_tried) &&
		    placement_fits(node, need))
			fit[n++] = node;
	}
	for (uint32_t left = MIN(rules->choices, n); left > 0; left--) {
		unsigned at = (unsigned)(random % n);

		random /= n;
		if (!best ||
		    placement_score(rules, fit[at], need) < placement_score(rules, best, need))
			best = fit[at];
		fit[at] = fit[--n]; /* drawn once */
	}
	if (fits_here &&
	    (!best || placement_score(rules, best, need) >= placement_score(rules, self, need)))
		return self->node;
	return best ? best->node : 0;
}
