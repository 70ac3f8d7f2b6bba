// SPDX-License-Identifier: Apache-2.0
#include "sandbox/model/ceiling.h"

/* Copies the values of a part of the table of limits into ceilings; and back. */
static struct ceilings of_limits(const void *limits, size_t from, size_t to)
{
	struct ceilings values = {};

	for (size_t i = from; i < to; i++)
		values.of[i] = limit_get(&limit_table[i], limits);
	return values;
}

static void set_limits(void *limits, size_t from, size_t to, const struct ceilings *values)
{
	for (size_t i = from; i < to; i++)
		limit_set(&limit_table[i], limits, values->of[i]);
}

static struct ceilings of_guest(const struct guest_limits *limits, uint64_t timeout_ms)
{
	struct ceilings values = of_limits(limits, 0, GUEST_LIMITS_COUNT);

	values.of[CEILING_TIMEOUT_MS] = timeout_ms;
	return values;
}

static struct ceilings of_execs(const struct exec_limits *limits)
{
	return of_limits(limits, GUEST_LIMITS_COUNT, LIMITS_COUNT);
}

static struct quota_owner owner_of(const char *project_id, const char *key_id)
{
	return (struct quota_owner){project_id, key_id ? key_id : ""};
}

int ceiling_check(const struct fleet *fleet, const char *project_id, const char *key_id,
                  const struct guest_limits *asked, uint64_t timeout_ms, struct err *err)
{
	const struct quota_owner owner = owner_of(project_id, key_id);
	const struct ceilings values = of_guest(asked, timeout_ms);

	if (!fleet->config.quota)
		return 0;
	return quota_check_ceilings(fleet->config.quota, &owner, &values, err);
}

int ceiling_check_execs(const struct fleet *fleet, const char *project_id, const char *key_id,
                        const struct exec_limits *asked, struct err *err)
{
	const struct quota_owner owner = owner_of(project_id, key_id);
	const struct ceilings values = of_execs(asked);

	if (!fleet->config.quota)
		return 0;
	return quota_check_ceilings(fleet->config.quota, &owner, &values, err);
}

void ceiling_lower_execs(const struct sandbox *s, struct exec_limits *limits)
{
	const struct quota_owner owner = owner_of(s->project_id, s->key_id);
	struct ceilings values = of_execs(limits);

	if (!s->fleet->config.quota || s->spare)
		return;
	quota_lower_to_ceilings(s->fleet->config.quota, &owner, &values);
	set_limits(limits, GUEST_LIMITS_COUNT, LIMITS_COUNT, &values);
}

void ceiling_lower(const struct fleet *fleet, const char *project_id, const char *key_id,
                   struct guest_limits *limits, uint64_t *timeout_ms)
{
	const struct quota_owner owner = owner_of(project_id, key_id);
	struct ceilings values = of_guest(limits, *timeout_ms);

	if (!fleet->config.quota)
		return;
	quota_lower_to_ceilings(fleet->config.quota, &owner, &values);
	set_limits(limits, 0, GUEST_LIMITS_COUNT, &values);
	*timeout_ms = values.of[CEILING_TIMEOUT_MS];
}

uint64_t ceiling_timeout_ms(const struct sandbox *s)
{
	struct guest_limits limits = s->limits;
	uint64_t max = s->fleet->config.max_timeout_ms;
	uint64_t ms = max ? max : UINT64_MAX;

	ceiling_lower(s->fleet, s->project_id, s->key_id, &limits, &ms);
	return ms == UINT64_MAX ? 0 : ms;
}
