// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Whether the store of objects can be used: puts a small object there, reads it again and removes
 * it, at the start and every minute. What is wrong has a code and what repairs it (trouble.h). A
 * node without the keys of objects (node_keys.h) cannot use a store that works.
 */
#include "base/json/json.h"
#include "loop/loop.h"
#include "member/objects/store_pool.h"

struct objects_check;

struct objects_check *objects_check_new(struct loop *loop, struct store_pool *pool,
                                        const char *place, bool is_keyless);
json_t *objects_check_status(const struct objects_check *c);
