// SPDX-License-Identifier: Apache-2.0
/* An account as people see it: its limits, and how much of them is used. */
#include "tenant/day.h"
#include "tenant/quota_fields.h"
#include "tenant/quota_private.h"
#include "tenant/share.h"

uint32_t quota_weight_of(const struct account *a)
{
	return a->setting.weight > 0 ? a->setting.weight : FAIR_WEIGHT;
}

static void put_current(struct quota *q, struct account *a, struct json_writer *w)
{
	uint64_t rate = quota_limit_of(q, a, QUOTA_CREATES_PER_MINUTE);

	quota_fill_bucket(q, a);
	json_open_object(w, "current");
	for (unsigned i = 0; i < QUOTA_HELD_COUNT; i++)
		quota_field_put(w, (enum quota_what)i, a->current.of[i]);
	quota_field_put(w, QUOTA_CREATES_PER_MINUTE,
	                rate == QUOTA_UNLIMITED ? 0 : rate - MIN(rate, a->tokens / QUOTA_TOKEN));
	quota_field_put(w, QUOTA_BUDGET_NANO, price_cost(&q->config.prices, &a->month));
	json_close_object(w);
}

void quota_to_json(struct quota *q, const struct quota_owner *owner, struct json_writer *w,
                   const char *name)
{
	struct account *accounts[QUOTA_OWNERS];
	size_t n = quota_accounts_of(q, owner, accounts);
	struct account *a = accounts[n - 1];
	char month[DAY_TEXT_SIZE];

	day_format(q->month, month);
	json_open_object(w, name);
	json_put_str(w, "project_id", owner->project_id);
	json_put_str(w, "key_id", a->is_key ? a->id : NULL);
	json_put_str(w, "currency", q->config.currency);
	json_put_str(w, "month", month);
	json_open_object(w, "limits");
	for (unsigned i = 0; i < QUOTA_COUNT; i++)
		quota_field_put(w, (enum quota_what)i, quota_limit_of(q, a, (enum quota_what)i));
	json_close_object(w);
	ceilings_put(&a->setting.ceilings, w);
	if (a->is_key)
		json_put_null(w, "weight");
	else
		json_put_u64(w, "weight", quota_weight_of(a));
	if (a->setting.events_age_ms > 0)
		json_put_u64(w, "events_age_ms", a->setting.events_age_ms);
	else
		json_put_null(w, "events_age_ms");
	put_current(q, a, w);
	quota_lease_put(q, a, w);
	json_close_object(w);
}
