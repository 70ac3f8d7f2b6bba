// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/quantity.h"

#include "base/parse.h"
#include "base/units.h"

#include <string.h>

/* A number directly followed by a unit of the table. */
struct unit {
	const char *name;
	uint64_t factor;
};
static const struct unit size_units[] = {{"", 1},      {"B", 1},     {"KiB", KIB},
                                         {"MiB", MIB}, {"GiB", GIB}, {"TiB", TIB}};
static const struct unit duration_units[] = {
	{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", DAY_MS}};

static int parse_united(const char *text, const struct unit *units, size_t n, uint64_t *ret)
{
	size_t digits = strspn(text, "0123456789");
	char number[24];
	uint64_t value;
	int r;

	if (digits == 0 || digits >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, digits);
	number[digits] = '\0';
	r = parse_u64(number, UINT64_MAX, &value);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (strcmp(text + digits, units[i].name) == 0)
			return __builtin_mul_overflow(value, units[i].factor, ret) ? -ERANGE : 0;
	return -EINVAL;
}

int quantity_parse_size(const char *text, uint64_t *ret)
{
	return parse_united(text, size_units, ARRAY_SIZE(size_units), ret);
}

int quantity_parse_duration_ms(const char *text, uint64_t *ret)
{
	return parse_united(text, duration_units, ARRAY_SIZE(duration_units), ret);
}

/* "2", "0.5", "1.25": thousandths, exactly. */
int quantity_parse_cpus_milli(const char *text, uint64_t *ret)
{
	const char *dot = strchr(text, '.');
	char whole[8], part[4] = "000";
	size_t len = dot ? (size_t)(dot - text) : strlen(text);
	size_t decimals = dot ? strlen(dot + 1) : 0;
	uint64_t units, thousandths = 0;
	int r;

	if (len >= sizeof(whole) || decimals > 3 || (dot && decimals == 0))
		return -EINVAL;
	memcpy(whole, text, len);
	whole[len] = '\0';
	r = parse_u64(whole, 1024, &units);
	if (r < 0)
		return r;
	if (dot)
		memcpy(part, dot + 1, decimals);
	if (strspn(part, "0123456789") != 3)
		return -EINVAL;
	for (size_t i = 0; i < 3; i++)
		thousandths = thousandths * 10 + (uint64_t)(part[i] - '0');
	*ret = units * 1000 + thousandths;
	return 0;
}
