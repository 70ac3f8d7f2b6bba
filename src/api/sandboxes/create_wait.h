// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A request that creates a sandbox and waits for room (tenant/create_queue.h). Its handler is
 * called again when its turn has come, from its beginning; until it has room it must not have begun
 * anything.
 */
#include "api/api.h"

#define CREATE_WAIT_HEADER "Cloche-Wait-Ms"

/* A handler's work, once. *ret_wait_ms: how long the caller would wait. */
typedef int (*create_fn)(struct http_req *req, uint64_t *ret_wait_ms, struct err *err);

/* How long a create waits on a wire that has no field for it: the header Cloche-Wait-Ms, else the
 * setting compat_wait. */
must_check int create_wait_foreign(const struct http_req *req, uint64_t *ret_wait_ms,
                                   struct err *err);

/* Makes it, or waits: as long as the request says, from its beginning on. A client that leaves
 * meanwhile waits no longer. */
must_check int create_or_wait(struct http_req *req, create_fn make, struct err *err);
/* The same for what this node has to make, though it is in a cluster. */
must_check int create_or_wait_here(struct http_req *req, create_fn make, struct err *err);
