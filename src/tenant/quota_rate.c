// SPDX-License-Identifier: Apache-2.0
/*
 * Creates a minute, where nodes share them: each is bought from the database before it is used, a
 * few in advance. One that was not used within a minute is lost.
 */
#include "tenant/quota_fields.h"
#include "tenant/quota_lease_private.h"

#include <inttypes.h>
#include <stdio.h>

#define RATE_US     UINT64_C(60000000) /* a create that was bought is good for so long */
#define AHEAD_SHARE 8

int quota_rate_check(const struct quota *q, const struct account *a, struct rate *r,
                     struct err *err)
{
	const uint64_t now_us = q->config.steady_us();
	const uint64_t limit = quota_limit_of(q, a, QUOTA_CREATES_PER_MINUTE);
	int result;

	if (r->bought > 0 && now_us - r->bought_us < RATE_US)
		return 0;
	r->bought = 0;
	if (now_us >= r->wait_until_us && limit > 0) {
		result = q->sharing->check(err, q->sharing_arg);
		if (result < 0)
			return result;
		r->missing++;
		q->sharing->wanted(q->sharing_arg);
	}
	(void)err_set(err, ERR_QUOTA, 0,
	              "the %s may create %" PRIu64
	              " sandboxes a minute in the whole cluster, and has",
	              quota_whose(a), limit);
	quota_put_refusal(a, QUOTA_CREATES_PER_MINUTE, limit, limit, err);
	err->quota.is_asked = now_us >= r->wait_until_us;
	err->quota.is_final = limit == 0;
	if (r->wait_until_us > now_us && r->wait_until_us != UINT64_MAX)
		err->quota.retry_after_ms = (r->wait_until_us - now_us) / 1000 + 1;
	return err_hint(err, "try again a little later");
}

void quota_lease_created(struct account *a)
{
	if (a->leases && a->leases->rate.bought > 0)
		a->leases->rate.bought--;
}

bool quota_rate_due(struct quota *q, struct quota_rate_ask *ret)
{
	list_for_each (&q->leased, struct account_leases, l, link) {
		struct rate *r = &l->rate;
		const struct account *a = l->account;

		if (r->is_calling || r->missing == 0)
			continue;
		r->is_calling = true;
		*ret = (struct quota_rate_ask){.n = r->missing + r->missing / AHEAD_SHARE};
		(void)snprintf(ret->owner, sizeof(ret->owner), "%s", a->id);
		ret->usual = a->is_key ? 0 : q->config.defaults.of[QUOTA_CREATES_PER_MINUTE];
		return true;
	}
	return false;
}

void quota_rate_answered(struct quota *q, const struct quota_rate_ask *ask, uint64_t n,
                         uint64_t wait_ms)
{
	struct account *a = quota_account_find(q, ask->owner);
	const uint64_t now_us = q->config.steady_us();
	struct rate *r;

	if (!a || !a->leases || !a->leases->rate.is_calling)
		return;
	r = &a->leases->rate;
	n = MIN(n, ask->n);
	r->is_calling = false;
	r->missing = 0;
	r->bought += n;
	r->bought_us = now_us;
	if (n >= ask->n)
		r->wait_until_us = 0;
	else
		r->wait_until_us = wait_ms == UINT64_MAX ? now_us + RATE_US
		                                         : now_us + MIN(wait_ms * 1000, RATE_US);
}

void quota_rate_failed(struct quota *q, const char *owner)
{
	struct account *a = quota_account_find(q, owner);

	if (!a || !a->leases)
		return;
	a->leases->rate.is_calling = false;
	a->leases->rate.missing = 0;
}
