// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A call that finds too little of a quota on this node, while the cluster is asked for more. */
#include "http/server.h"
#include "tenant/quota.h"

/* A hook of struct http_app: 1, if the call waits for the answer and is then made again. */
int quota_wait_refused(struct http_req *req, const struct err *err);
/* Whether it waits for what all nodes use, for a second at most; its handler is then called again.
 */
bool quota_wait_fresh(struct http_req *req, const struct quota_owner *owner);
