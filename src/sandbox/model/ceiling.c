// SPDX-License-Identifier: Apache-2.0
#include "sandbox/model/ceiling.h"

static struct ceilings of_limits(const struct guest_limits *l, uint64_t timeout_ms)
{
	return (struct ceilings){.of = {
					 [CEILING_CPU_MILLI] = l->cpu_milli,
					 [CEILING_MEMORY_BYTES] = l->memory_bytes,
					 [CEILING_DISK_BYTES] = l->disk_bytes,
					 [CEILING_INODES] = l->inodes,
					 [CEILING_PIDS] = l->pids,
					 [CEILING_OPEN_FILES] = l->open_files,
					 [CEILING_TIMEOUT_MS] = timeout_ms,
				 }};
}

static struct quota_owner owner_of(const char *project_id, const char *key_id)
{
	return (struct quota_owner){project_id, key_id ? key_id : ""};
}

int ceiling_check(const struct fleet *fleet, const char *project_id, const char *key_id,
                  const struct guest_limits *asked, uint64_t timeout_ms, struct err *err)
{
	const struct quota_owner owner = owner_of(project_id, key_id);
	const struct ceilings values = of_limits(asked, timeout_ms);

	if (!fleet->config.quota)
		return 0;
	return quota_check_ceilings(fleet->config.quota, &owner, &values, err);
}

static struct ceilings of_exec_limits(const struct exec_limits *l)
{
	return (struct ceilings){
		.of = {[CEILING_OUTPUT_BYTES] = l->output_bytes, [CEILING_EXECS] = l->execs}};
}

int ceiling_check_execs(const struct fleet *fleet, const char *project_id, const char *key_id,
                        const struct exec_limits *asked, struct err *err)
{
	const struct quota_owner owner = owner_of(project_id, key_id);
	const struct ceilings values = of_exec_limits(asked);

	if (!fleet->config.quota)
		return 0;
	return quota_check_ceilings(fleet->config.quota, &owner, &values, err);
}

void ceiling_lower_execs(const struct sandbox *s, struct exec_limits *limits)
{
	const struct quota_owner owner = owner_of(s->project_id, s->key_id);
	struct ceilings values = of_exec_limits(limits);

	if (!s->fleet->config.quota || s->spare)
		return;
	quota_lower_to_ceilings(s->fleet->config.quota, &owner, &values);
	limits->output_bytes = values.of[CEILING_OUTPUT_BYTES];
	limits->execs = (uint32_t)values.of[CEILING_EXECS];
}

void ceiling_lower(const struct fleet *fleet, const char *project_id, const char *key_id,
                   struct guest_limits *limits, uint64_t *timeout_ms)
{
	const struct quota_owner owner = owner_of(project_id, key_id);
	struct ceilings values = of_limits(limits, *timeout_ms);

	if (!fleet->config.quota)
		return;
	quota_lower_to_ceilings(fleet->config.quota, &owner, &values);
	limits->cpu_milli = (uint32_t)values.of[CEILING_CPU_MILLI];
	limits->memory_bytes = values.of[CEILING_MEMORY_BYTES];
	limits->disk_bytes = values.of[CEILING_DISK_BYTES];
	limits->inodes = values.of[CEILING_INODES];
	limits->pids = (uint32_t)values.of[CEILING_PIDS];
	limits->open_files = (uint32_t)values.of[CEILING_OPEN_FILES];
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
