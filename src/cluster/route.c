// SPDX-License-Identifier: Apache-2.0
#include "cluster/route.h"

static bool is_tried(const struct route *r, uint32_t node)
{
	for (unsigned i = 0; i < r->hops; i++) {
		if (r->tried[i] == node)
			return true;
	}
	return false;
}

/* Whether a hop to it may be made, and has a chance to help. */
static bool may_try(const struct route *r, const struct route_facts *f, uint32_t node)
{
	unsigned max = r->has_asked ? ROUTE_HOPS_MAX : ROUTE_HOPS_MAX - 1;

	return node != 0 && node != f->self && r->hops < max && !is_tried(r, node) &&
	       f->is_alive(node, f->arg);
}

static enum route_step hop(struct route *r, uint32_t node, uint32_t *ret_node)
{
	r->tried[r->hops++] = node;
	*ret_node = node;
	return ROUTE_HOP;
}

static enum route_step ask(struct route *r)
{
	if (r->has_asked)
		return ROUTE_UNREACHABLE;
	r->has_asked = true;
	return ROUTE_ASK;
}

static enum route_step answer_peer(const struct route_facts *f, uint32_t *ret_node)
{
	if (f->forward == 0 || f->forward == f->self)
		return ROUTE_NOT_FOUND;
	*ret_node = f->forward;
	return ROUTE_MOVED;
}

static enum route_step by_tag(struct route *r, const struct route_facts *f, uint32_t *ret_node)
{
	if (f->tagged == f->self && f->tagged != 0)
		/* It knows where its own are, unless that node is gone. */
		return f->forward == 0 || f->forward == f->self ? ROUTE_NOT_FOUND : ask(r);
	if (!may_try(r, f, f->tagged))
		return ask(r);
	if (f->may_redirect) {
		*ret_node = f->tagged;
		return ROUTE_REDIRECT;
	}
	return hop(r, f->tagged, ret_node);
}

enum route_step route_first(struct route *r, const struct route_facts *f, uint32_t *ret_node)
{
	if (f->hop_from != 0 && f->hop_from == f->self)
		return ROUTE_LOOP;
	if (f->is_own)
		return ROUTE_HERE;
	if (f->hop_from != 0)
		return answer_peer(f, ret_node);
	if (may_try(r, f, f->forward))
		return hop(r, f->forward, ret_node);
	return by_tag(r, f, ret_node);
}

enum route_step route_answered(struct route *r, const struct route_facts *f,
                               enum route_answer answer, uint32_t node, uint32_t *ret_node)
{
	uint32_t last = r->hops ? r->tried[r->hops - 1] : 0;

	switch (answer) {
	case ROUTE_ANSWER_MOVED:
		return may_try(r, f, node) ? hop(r, node, ret_node) : ask(r);
	case ROUTE_ANSWER_NOT_FOUND:
		/* Only the tag's node knows that; another was named by a cache that is old. */
		if (last == f->tagged || r->has_asked)
			return ROUTE_NOT_FOUND;
		return may_try(r, f, f->tagged) ? hop(r, f->tagged, ret_node) : ask(r);
	case ROUTE_ANSWER_FAILED:
		return ask(r);
	}
	return ROUTE_UNREACHABLE;
}

enum route_step route_told(struct route *r, const struct route_facts *f, uint32_t node,
                           uint32_t *ret_node)
{
	if (node == 0 || node == f->self)
		return ROUTE_NOT_FOUND; /* it would have been found here */
	return may_try(r, f, node) ? hop(r, node, ret_node) : ROUTE_UNREACHABLE;
}
