// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What is told to a person while an answer takes long: one line on a terminal's stderr, from the
 * second second on, which is gone when the answer comes. */
#include "http/client.h"

/* As http_client_head(). what says what it is that takes long; NULL: nothing is told. */
must_check int waiting_head(struct http_client *client, const char *what, int *ret_status,
                            struct err *err);
