// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "api/api.h"

/* Turns away a caller that had no good key or link, and counts it: 401, or 429 when it was too
 * often. */
int api_refuse(struct http_req *req, struct err *err, const char *why);
