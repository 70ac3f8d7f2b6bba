// SPDX-License-Identifier: Apache-2.0
/*
 * Years are counted from March, so that the leap day is the last day of a year. Then the lengths of
 * months follow from a product with 153/5, and 400 years are one era of 146097 days.
 */
#include "tenant/day.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

#define ERA_DAYS   146097
#define EPOCH_DAYS 719468 /* from 0000-03-01 to 1970-01-01 */

struct date {
	int year, month, day; /* from 1 */
};

static struct date date_of(int32_t day)
{
	int since = day + EPOCH_DAYS;
	int era = since / ERA_DAYS;
	int of_era = since % ERA_DAYS;
	int year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int of_year = of_era - (365 * year + year / 4 - year / 100);
	int month = (5 * of_year + 2) / 153; /* from March */
	struct date d = {
		.year = year + era * 400 + (month >= 10),
		.month = month < 10 ? month + 3 : month - 9,
		.day = of_year - (153 * month + 2) / 5 + 1,
	};

	return d;
}

static int32_t day_from(int year, int month, int day)
{
	int y = month <= 2 ? year - 1 : year;
	int era = y / 400;
	int of_era = y - era * 400;
	int of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH_DAYS;
}

int32_t day_of(uint64_t wall_us)
{
	return (int32_t)MIN(wall_us / DAY_US, (uint64_t)DAY_MAX);
}

int32_t day_month(int32_t day)
{
	struct date d = date_of(day);

	return day_from(d.year, d.month, 1);
}

int32_t day_next_month(int32_t day)
{
	struct date d = date_of(day);

	return d.month == 12 ? day_from(d.year + 1, 1, 1) : day_from(d.year, d.month + 1, 1);
}

void day_format(int32_t day, char ret[DAY_TEXT_SIZE])
{
	struct date d = date_of(day);

	(void)snprintf(ret, DAY_TEXT_SIZE, "%04u-%02u-%02u", (unsigned)d.year % 10000,
	               (unsigned)d.month % 100, (unsigned)d.day % 100);
}

/* A number of len digits; -1 if there is anything else. */
static int number_at(const char *text, size_t len)
{
	int n = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		n = n * 10 + (text[i] - '0');
	}
	return n;
}

int day_parse(const char *text, int32_t *ret)
{
	int year, month, day;
	char again[DAY_TEXT_SIZE];
	int32_t found;

	if (strlen(text) != 10 || text[4] != '-' || text[7] != '-')
		return -EINVAL;
	year = number_at(text, 4);
	month = number_at(text + 5, 2);
	day = number_at(text + 8, 2);
	if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31)
		return -EINVAL;
	found = day_from(year, month, day);
	day_format(found, again); /* a 30th of February comes back as another day */
	if (strcmp(again, text) != 0)
		return -EINVAL;
	*ret = found;
	return 0;
}
