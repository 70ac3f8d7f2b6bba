// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Which replies wait until what they tell of is on disk: an http_app's holds(). */
#include "api/api.h"

uint64_t hold_for(struct http_req *req);
