// SPDX-License-Identifier: Apache-2.0
#include "base/text/decimal.h"

#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NANO     UINT64_C(1000000000)
#define DECIMALS 9

__extension__ typedef unsigned __int128 u128;

int decimal_parse(const char *text, uint64_t *ret_nano)
{
	const char *dot = strchr(text, '.');
	size_t len = dot ? (size_t)(dot - text) : strlen(text);
	size_t decimals = dot ? strlen(dot + 1) : 0;
	char whole[24], part[DECIMALS + 1] = "000000000";
	uint64_t units, nano = 0;
	int r;

	if (len >= sizeof(whole) || decimals > DECIMALS || (dot && decimals == 0))
		return -EINVAL;
	memcpy(whole, text, len);
	whole[len] = '\0';
	r = parse_u64(whole, UINT64_MAX / NANO - 1, &units);
	if (r < 0)
		return r;
	if (dot)
		memcpy(part, dot + 1, decimals);
	if (strspn(part, "0123456789") != DECIMALS)
		return -EINVAL;
	for (size_t i = 0; i < DECIMALS; i++)
		nano = nano * 10 + (uint64_t)(part[i] - '0');
	*ret_nano = units * NANO + nano;
	return 0;
}

void decimal_format(uint64_t nano, char ret[DECIMAL_SIZE])
{
	int len = snprintf(ret, DECIMAL_SIZE, "%" PRIu64 ".%09" PRIu64, nano / NANO, nano % NANO);

	while (ret[len - 1] == '0' && ret[len - 3] != '.')
		ret[--len] = '\0';
}

uint64_t sum_u64(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t scale_u64(uint64_t a, uint64_t b, uint64_t c)
{
	u128 whole = (u128)a * b / c;

	return whole > UINT64_MAX ? UINT64_MAX : (uint64_t)whole;
}
