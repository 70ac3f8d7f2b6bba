// SPDX-License-Identifier: Apache-2.0
#include "cli/term/waiting.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define QUIET_US 1000000 /* what is shorter needs no words */
#define STEP_US  1000000

static int head(struct http_client *client, int *ret_status, struct err *err)
{
	int r;

	do
		r = http_client_head(client, ret_status, err);
	while (r == -EINTR);
	return r;
}

static void draw(const struct waiting_line *line, uint64_t since_us)
{
	auto_free char *more = line->more ? line->more(line->arg) : NULL;

	(void)fprintf(stderr, "\r\x1b[K%s, %" PRIu64 " s%s%s", line->what,
	              (clock_steady_us() - since_us) / 1000000, more ? ", " : "", more ? more : "");
	(void)fflush(stderr);
}

int waiting_head(struct http_client *client, const struct waiting_line *line, int *ret_status,
                 struct err *err)
{
	uint64_t since_us = clock_steady_us();
	uint64_t next_us = since_us + QUIET_US;
	bool is_shown = false;
	int r;

	if (!line->what || !isatty(STDERR_FILENO))
		return head(client, ret_status, err);
	for (;; next_us = clock_steady_us() + STEP_US) {
		http_client_set_deadline(client, next_us);
		r = head(client, ret_status, err);
		if (r != -ETIMEDOUT)
			break;
		draw(line, since_us);
		is_shown = true;
	}
	http_client_set_deadline(client, 0);
	if (is_shown)
		(void)fputs("\r\x1b[K", stderr);
	return r;
}
