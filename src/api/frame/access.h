// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The hooks of struct http_app: origin of events, access log, counters. */
#include "api/api.h"

void access_enter(struct http_req *req);
/* A handler that had to wait goes on, from the loop: again on its caller's behalf. To be ended with
 * access_leave(). */
void access_enter_again(struct http_req *req);
void access_leave(struct http_req *req);
void access_ended(const struct http_req *req, const struct http_outcome *o);
