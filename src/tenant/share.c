// SPDX-License-Identifier: Apache-2.0
#include "tenant/share.h"

#include <stdio.h>

struct shares {
	struct share *by_id;
};

struct shares *shares_new(void)
{
	return xnew0(struct shares);
}

void shares_free(struct shares *shares)
{
	struct share *s, *next;

	if (!shares)
		return;
	HASH_ITER (hh, shares->by_id, s, next) {
		HASH_DEL(shares->by_id, s);
		fair_share_done(&s->turn);
		fair_share_done(&s->broker);
		fair_share_done(&s->creates);
		free(s);
	}
	free(shares);
}

struct share *shares_get(struct shares *shares, const char *project_id)
{
	struct share *s = NULL;

	if (!shares)
		return NULL;
	HASH_FIND_STR(shares->by_id, project_id, s);
	if (s)
		return s;
	s = xnew0(struct share);
	(void)snprintf(s->project_id, sizeof(s->project_id), "%s", project_id);
	fair_share_init(&s->turn, FAIR_WEIGHT);
	fair_share_init(&s->broker, FAIR_WEIGHT);
	fair_share_init(&s->creates, FAIR_WEIGHT);
	HASH_ADD_STR(shares->by_id, project_id, s);
	return s;
}

void shares_set_weight(struct shares *shares, const char *project_id, uint32_t weight)
{
	struct share *s = shares_get(shares, project_id);

	if (s)
		s->turn.weight = s->broker.weight = s->creates.weight = weight;
}
