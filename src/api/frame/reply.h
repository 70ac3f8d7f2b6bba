// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Replies that are one JSON object, built in memory and sent at once. */
#include "http/server.h"

#define REPLY_BYTES_MAX (16 * 1024 * 1024)

struct reply {
	struct buf body;
	struct json_writer w;
};

/* Gives the writer with the top object open: put fields, then reply_send(). */
struct json_writer *reply_begin(struct reply *r);
/* The same without an object, for those whose x_to_json() writes the whole. */
struct json_writer *reply_begin_bare(struct reply *r);
/* Sends it and frees it, on failure too. */
must_check int reply_send(struct reply *r, struct http_req *req, int status, struct err *err);
/* The same from the loop, where no router is left to answer with err. */
void reply_send_late(struct reply *r, struct http_req *req, int status);
