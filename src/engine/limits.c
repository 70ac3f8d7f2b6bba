// SPDX-License-Identifier: Apache-2.0
#include "engine/limits.h"

#include "base/auto.h"

#include <string.h>

#define UNIT_CPUS    1000
#define UNIT_SIZE    MIB
#define UNIT_COUNT   1
#define UNIT_COUNT64 1

#define ROW(of, member_, name_, kind_)                                                             \
	.name = #name_, .row_name = #member_, .kind = LIMIT_##kind_, .unit = UNIT_##kind_,         \
	.offset = offsetof(struct of, member_), .size = sizeof(((struct of *)0)->member_)
#define GUEST_ROW(of, member, name, kind, least_, most, usual_, ceiling_, fixed, setting_, ...)    \
	{ROW(of, member, name, kind), .least = least_,   .usual = usual_,                          \
	 .ceiling = ceiling_,         .is_fixed = fixed, .setting = setting_},
#define EXEC_ROW(of, member, name, kind, least_) {ROW(of, member, name, kind), .least = least_},

/* clang-format off */
const struct limit limit_table[LIMITS_COUNT] = {
	GUEST_LIMITS(GUEST_ROW, guest_limits)
	EXEC_LIMITS(EXEC_ROW, exec_limits)
};
/* clang-format on */

uint64_t limit_get(const struct limit *l, const void *limits)
{
	const char *at = (const char *)limits + l->offset;

	return l->size == sizeof(uint32_t) ? *(const uint32_t *)at : *(const uint64_t *)at;
}

void limit_set(const struct limit *l, void *limits, uint64_t value)
{
	char *at = (char *)limits + l->offset;

	if (l->size == sizeof(uint32_t))
		*(uint32_t *)at = (uint32_t)value;
	else
		*(uint64_t *)at = value;
}

uint64_t limit_most(const struct limit *l)
{
	return l->size == sizeof(uint32_t) ? UINT32_MAX : INT64_MAX;
}

void limits_fill(struct guest_limits *limits, const struct guest_limits *from)
{
	for (size_t i = 0; i < GUEST_LIMITS_COUNT; i++) {
		const struct limit *l = &limit_table[i];

		if (limit_get(l, limits) == 0)
			limit_set(l, limits, limit_get(l, from));
	}
}

bool limits_are_equal(const struct guest_limits *a, const struct guest_limits *b)
{
	for (size_t i = 0; i < GUEST_LIMITS_COUNT; i++)
		if (limit_get(&limit_table[i], a) != limit_get(&limit_table[i], b))
			return false;
	return true;
}
