// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What heads of relayed messages have in common. They are never passed on as they came: the strict
 * parser has read them, and they are written anew, field by field, without those of one connection.
 * So this side and the other cannot understand a message differently.
 *
 * In names of fields '_' counts as '-': in CGI and WSGI variables the two are the same name.
 */
#include "http/parse.h"
#include "http/server.h"

bool relay_field_begins(const char *field, const char *begin);
bool relay_field_is_in(const char *const *list, const char *field); /* NULL-terminated */
/* Fields that end at this connection, also those that "Connection" names. */
bool relay_field_is_of_connection(const struct http_head *head, const char *field);
/* Content-Length or Transfer-Encoding, as the body comes. */
must_check int relay_put_framing(const struct http_head *head, struct buf *out);
/* Of a request that asks for an upgrade: Connection and Upgrade. */
must_check int relay_put_upgrade(const struct http_head *head, struct buf *out);
/* The same into the reply, if the answer is 101. */
void relay_reply_upgrade(struct http_req *req, const struct http_head *head);
