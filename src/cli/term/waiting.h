// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What is told to a person while an answer takes long: one line on a terminal's stderr, from the
 * second second on, which is gone when the answer comes. */
#include "http/client.h"

/* What is told: NULL as what: nothing. more, which may be NULL, gives words that are added, for
 * free(), or NULL; it is asked as often as the line is drawn. */
struct waiting_line {
	const char *what;
	char *(*more)(void *arg);
	void *arg;
};
/* As http_client_head(). */
must_check int waiting_head(struct http_client *client, const struct waiting_line *line,
                            int *ret_status, struct err *err);
