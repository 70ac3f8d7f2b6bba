// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Who is calling by a cookie instead of a key. */
#include "api/api.h"

/* The key that the request's login stands for, or NULL: also for one that may not use it. */
const struct key *login_of(const struct http_req *req);
