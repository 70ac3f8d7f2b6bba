// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What usage costs, in whole billionths of the currency's unit ("nano", base/text/decimal.h).
 * Prices are settings of the daemon. Usage is recorded, not its cost: a cost is computed when it is
 * asked for.
 */
#include "store/tables/usage.h"

#define CURRENCY_MAX 8

struct prices { /* nano per … */
	uint64_t cpu_hour;
	uint64_t memory_gib_hour; /* of the limit */
	uint64_t disk_gib_month;  /* of 30 days, of what its files take */
	uint64_t network_gib;     /* in either direction */
	uint64_t create;
};

uint64_t price_cost(const struct prices *p, const struct usage *u);
void usage_add(struct usage *u, const struct usage *more);
