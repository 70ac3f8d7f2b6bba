// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Webhooks that are made, changed and removed: in a cluster, for all nodes. Each replies, now or
 * later. */
#include "hook/hook_shared.h"

struct http_req;

must_check int hook_share_new(struct http_req *req, const struct hook_wish *wish, struct err *err);
must_check int hook_share_change(struct http_req *req, const struct hook_wish *wish,
                                 struct err *err);
must_check int hook_share_removal(struct http_req *req, struct err *err);
/* The one of the path. 1: the call waits for what other nodes have; its handler is called again. */
must_check int hook_find_fresh(struct http_req *req, const struct hook **ret, struct err *err);
