// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What lists of the native API have in common: a page behind a cursor, of this node alone or of all
 * nodes of a cluster. */
#include "api/nodes/node_list.h"
#include "base/json/json.h"

/* `limit` and `cursor` of the query. kind: of the ids, such as "sb". */
must_check int list_page_read(const struct http_req *req, const char *kind,
                              struct node_list_place *ret, struct err *err);
/* Whether this node's page must be in order of time: the client sees pages of other nodes, too. */
bool list_page_is_ordered(const struct http_req *req, const struct node_list_place *place);
/* `next_cursor` of a page of this node alone. last_id NULL: it is the last page. last_us 0: it is
 * not in order of time. */
void list_page_put_cursor(struct json_writer *w, const char *last_id, uint64_t last_us);
/* In finish(), when this node's rows are added: merges all rows and replies. put: writes one row
 * into an open array. */
must_check int list_page_reply(struct http_req *req, struct node_list *l, uint64_t limit,
                               void (*put)(const struct node_row *row, struct json_writer *w),
                               struct err *err);
