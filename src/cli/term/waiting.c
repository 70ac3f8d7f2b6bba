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

int waiting_head(struct http_client *client, const char *what, int *ret_status, struct err *err)
{
	uint64_t since_us = clock_steady_us();
	uint64_t next_us = since_us + QUIET_US;
	bool is_shown = false;
	int r;

	if (!what || !isatty(STDERR_FILENO))
		return head(client, ret_status, err);
	for (;; next_us += STEP_US) {
		http_client_set_deadline(client, next_us);
		r = head(client, ret_status, err);
		if (r != -ETIMEDOUT)
			break;
		(void)fprintf(stderr, "\r\x1b[K%s, %" PRIu64 " s", what,
		              (clock_steady_us() - since_us) / 1000000);
		(void)fflush(stderr);
		is_shown = true;
	}
	http_client_set_deadline(client, 0);
	if (is_shown)
		(void)fputs("\r\x1b[K", stderr);
	return r;
}
