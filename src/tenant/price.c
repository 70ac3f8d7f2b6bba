// SPDX-License-Identifier: Apache-2.0
/*
 * The cost of a row is the sum of its five parts, each rounded down to a nano. So nobody pays for
 * more than they used, and the cost does not depend on how often usage was sampled. The costs of
 * several rows may add up to slightly less than the cost of their sum: by less than a nano for each
 * part and row.
 */
#include "tenant/price.h"

#include "base/text/decimal.h"
#include "base/units.h"

void usage_add(struct usage *u, const struct usage *more)
{
	for (size_t i = 0; i < USAGE_FIGURE_COUNT; i++)
		u->of[i] = sum_u64(u->of[i], more->of[i]);
}

uint64_t price_cost(const struct prices *p, const struct usage *u)
{
	const uint64_t *of = u->of;
	uint64_t network = sum_u64(of[USAGE_NETWORK_IN_BYTES], of[USAGE_NETWORK_OUT_BYTES]);
	const uint64_t parts[] = {
		scale_u64(of[USAGE_CPU_NS], p->cpu_hour, HOUR_MS * 1000000),
		scale_u64(of[USAGE_MEMORY_MIB_MS], p->memory_gib_hour, HOUR_MS * 1024),
		scale_u64(of[USAGE_DISK_MIB_MS], p->disk_gib_month, HOUR_MS * 24 * 30 * 1024),
		scale_u64(network, p->network_gib, UINT64_C(1) << 30),
		scale_u64(of[USAGE_CREATES], p->create, 1),
	};
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		sum = sum_u64(sum, parts[i]);
	return sum;
}
