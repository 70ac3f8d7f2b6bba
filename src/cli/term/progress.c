// SPDX-License-Identifier: Apache-2.0
#include "cli/term/progress.h"

#include "base/clock.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>

#define QUIET_US 700000 /* a transfer shorter than this needs no words */
#define STEP_US  200000

void progress_init(struct progress *p, uint64_t total)
{
	*p = (struct progress){.total = total, .started_us = clock_steady_us()};
}

static void show(struct progress *p, uint64_t now)
{
	uint64_t elapsed_us = MAX(now - p->started_us, 1);
	uint64_t left_us = remaining_us(&p->remaining, now, elapsed_us, p->bytes, p->total);
	char done[16], rate[16], left[16];

	text_bytes(p->bytes, done);
	text_bytes((uint64_t)((double)p->bytes * 1e6 / (double)elapsed_us), rate);
	if (p->total)
		(void)fprintf(stderr, "\r\x1b[K%s (%" PRIu64 " %%), %s/s", done,
		              (uint64_t)(100.0 * (double)p->bytes / (double)p->total), rate);
	else
		(void)fprintf(stderr, "\r\x1b[K%s, %s/s", done, rate);
	text_age(left_us, left);
	if (left_us > 0)
		(void)fprintf(stderr, ", about %s left", left);
	(void)fflush(stderr);
	p->is_shown = true;
}

void progress_add(struct progress *p, uint64_t bytes)
{
	uint64_t now = clock_steady_us();

	p->bytes += bytes;
	if (now - p->started_us < QUIET_US || now - p->shown_us < STEP_US || !isatty(STDERR_FILENO))
		return;
	p->shown_us = now;
	show(p, now);
}

void progress_done(struct progress *p)
{
	if (p->is_shown)
		(void)fputs("\r\x1b[K", stderr);
	p->is_shown = false;
}
