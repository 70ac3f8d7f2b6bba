// SPDX-License-Identifier: Apache-2.0
#include "cli/term/moment.h"

#include "base/units.h"
#include "cli/term/opts.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

/* "14:00" or "14:00:05", and nothing but a Z behind it. */
static int parse_clock(const char *text, struct tm *tm, bool *ret_utc)
{
	const char *rest = strptime(text, "%H:%M", tm);

	tm->tm_sec = 0;
	if (rest && *rest == ':')
		rest = strptime(rest, ":%S", tm);
	*ret_utc = rest && *rest == 'Z';
	return rest && !rest[*ret_utc] ? 0 : -EINVAL;
}

static uint64_t microseconds(struct tm *tm, bool is_utc)
{
	time_t at;

	tm->tm_isdst = -1; /* as it was then */
	at = is_utc ? timegm(tm) : mktime(tm);
	return at > 0 ? (uint64_t)at * SECOND_US : 0;
}

int moment_parse(const char *text, uint64_t now_us, uint64_t *ret_us)
{
	time_t now = (time_t)(now_us / SECOND_US);
	struct tm tm = {0};
	const char *rest = strptime(text, "%Y-%m-%d", &tm);
	uint64_t ms;
	bool is_utc;

	if (rest && (*rest == 'T' || *rest == ' ') && parse_clock(rest + 1, &tm, &is_utc) == 0) {
		*ret_us = microseconds(&tm, is_utc);
		return 0;
	}
	(void)localtime_r(&now, &tm);
	if (parse_clock(text, &tm, &is_utc) == 0) {
		*ret_us = microseconds(&tm, is_utc);
		return 0;
	}
	if (opts_parse_ms(text, &ms) < 0 || ms > now_us / MILLISECOND_US)
		return -EINVAL;
	*ret_us = now_us - ms * MILLISECOND_US;
	return 0;
}

void moment_format(uint64_t us, char text[32])
{
	time_t at = (time_t)(us / SECOND_US);
	struct tm tm;

	(void)strftime(text, 32, "%Y-%m-%d %H:%M:%S", localtime_r(&at, &tm));
}
