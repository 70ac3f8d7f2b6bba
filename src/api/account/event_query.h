// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a query looks for in the event log: who, address, text, since, until. */
#include "event/search.h"
#include "http/server.h"

/*
 * *ret becomes the search, or NULL where the query has none; the caller frees it, after a failure
 * too. project_id: whose keys may be meant by a name; NULL = those of all.
 */
must_check int read_event_search(const struct http_req *req, const char *project_id,
                                 struct event_search **ret, struct err *err);
