// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Requests that name a template or snapshot of another node of the cluster. */
#include "api/api.h"

/* word: as of template_resolve(). 1: it is on its way; the request's route is called once more when
 * it is here, or the request is answered with the reason why it does not come. */
must_check int await_template(struct http_req *req, const char *word, struct err *err);
/* The same for a snapshot, by its id or name: a durable one of another node is fetched. */
must_check int await_snapshot(struct http_req *req, const char *word, struct err *err);
