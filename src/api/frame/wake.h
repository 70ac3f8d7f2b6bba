// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Requests that wait for a sandbox. A handler is then called once more, from its beginning, when
 * there is no more to wait for; until it has found its sandbox it must not have begun anything.
 */
#include "api/frame/find.h"

/*
 * As find_sandbox(), for calls that need it running. 1: it was stopped or paused and is being
 * resumed. The handler is to return that; it is called again when the sandbox runs, or the request
 * is answered with the error.
 */
/* The same for one that was found otherwise: 0 = it runs, or is none that a call wakes. */
must_check int wake_sandbox(struct http_req *req, struct sandbox *s, struct err *err);
must_check int find_awake(struct http_req *req, struct sandbox **ret, struct err *err);
int wait_for_end(struct http_req *req, struct sandbox *s); /* of one that is stopping; gives 1 */
