// SPDX-License-Identifier: Apache-2.0
#include "base/text/wall_time.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define FIELDS 6 /* year to second */

/* The form: a digit stands for itself, all else must be there. */
static const char form[] = "0000-00-00T00:00:00";

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads the numbers of text as the form has them. Returns what follows, or NULL. */
static const char *read_form(const char *text, const char *like, int *ret)
{
	*ret = 0;
	for (; *like; like++, text++) {
		if (*like == '0' && is_digit(*text))
			*ret = *ret * 10 + *text - '0';
		else if (*like != '0' && (*text == *like || *text == (*like | 0x20)))
			*++ret = 0;
		else
			return NULL;
	}
	return text;
}

static const char *read_fraction(const char *text, uint64_t *ret_us)
{
	uint64_t unit = 100000;

	*ret_us = 0;
	if (*text != '.')
		return text;
	if (!is_digit(*++text))
		return NULL;
	for (; is_digit(*text); text++, unit /= 10)
		*ret_us += (uint64_t)(*text - '0') * unit;
	return text;
}

/* "Z", or how far its clock is ahead of the world's. */
static int read_zone(const char *text, int64_t *ret_s)
{
	const char sign = *text;
	int at[2];
	const char *rest;

	*ret_s = 0;
	if ((sign == 'Z' || sign == 'z') && text[1] == '\0')
		return 0;
	rest = sign == '+' || sign == '-' ? read_form(text + 1, "00:00", at) : NULL;
	if (!rest || *rest || at[0] > 23 || at[1] > 59)
		return -EINVAL;
	*ret_s = (at[0] * 60 + at[1]) * (sign == '-' ? -60 : 60);
	return 0;
}

int wall_time_parse(const char *text, uint64_t *ret_us)
{
	int at[FIELDS];
	uint64_t fraction_us;
	int64_t zone_s, at_s;
	const char *rest = read_form(text, form, at);
	struct tm day, same;

	if (rest)
		rest = read_fraction(rest, &fraction_us);
	if (!rest || read_zone(rest, &zone_s) < 0)
		return -EINVAL;
	day = (struct tm){.tm_year = at[0] - 1900, .tm_mon = at[1] - 1, .tm_mday = at[2]};
	same = day;
	at_s = timegm(&same); /* a day that is not in the calendar becomes another one */
	if (same.tm_mon != day.tm_mon || same.tm_mday != day.tm_mday)
		return -EINVAL;
	if (at[3] > 23 || at[4] > 59 || at[5] > 60) /* 60: a leap second */
		return -EINVAL;
	at_s += at[3] * 3600 + at[4] * 60 + at[5] - zone_s;
	if (at_s < 0)
		return -EINVAL;
	*ret_us = (uint64_t)at_s * 1000000 + fraction_us;
	return 0;
}
