// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/hop/hop_heads.h"

#include "daemon/gateway/hop/hop_private.h"
#include "http/relay/relay_heads.h"

/* What this gateway says itself: a client cannot say them for it. */
static const char *const said_by_us[] = {"Expect",         "X-Request-Id", HTTP_CLIENT_FIELD,
                                         HOP_PLACED_FIELD, HOP_FIND_FIELD, NULL};
static const char *const said_in_replies[] = {
	"Expect", "Server", "Date", "X-Request-Id", "X-Content-Type-Options", NULL};

static int put_framing(const struct http_head *head, const struct hop_body *body, struct buf *out)
{
	int r;

	if (body->data)
		return buf_printf(out, "Content-Length: %zu\r\n", body->len);
	r = relay_put_framing(head, out);
	if (r == 0 && body->is_held)
		r = buf_append_str(out, "Expect: 100-continue\r\n");
	return r;
}

int hop_heads_request(const struct http_req *req, const struct hop_body *body, struct buf *out)
{
	const struct http_head *head = http_req_head(req);
	const bool is_head = body->find && http_req_method(req) == HTTP_HEAD;
	int r = buf_printf(out, "%s %s HTTP/1.1\r\n", is_head ? "GET" : head->method, head->target);

	if (r == 0)
		r = http_encode_field(out, "X-Request-Id", http_request_id(req));
	if (r == 0 && http_peer(req)[0])
		r = http_encode_field(out, HTTP_CLIENT_FIELD, http_peer(req));
	if (r == 0 && body->is_placed)
		r = http_encode_field(out, HOP_PLACED_FIELD, "1");
	if (r == 0 && body->find)
		r = http_encode_field(out, HOP_FIND_FIELD, body->find);
	if (r == 0)
		r = put_framing(head, body, out);
	/* A client that names its own credential in "Connection" loses it, and the owner refuses
	 * the request. */
	for (size_t i = 0; r == 0 && i < head->n_fields; i++) {
		struct http_field f = http_head_field(head, i);

		if (!relay_field_is_of_connection(head, f.name) &&
		    !relay_field_is_in(said_by_us, f.name))
			r = http_encode_field(out, f.name, f.value);
	}
	if (r == 0 && head->is_upgrade && !body->find)
		r = relay_put_upgrade(head, out);
	if (r == 0)
		r = buf_append(out, "\r\n", 2);
	return r == 0 && body->data ? buf_append(out, body->data, body->len) : r;
}

void hop_heads_reply(struct http_req *req, const struct http_head *head)
{
	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_field f = http_head_field(head, i);

		if (!relay_field_is_of_connection(head, f.name) &&
		    !relay_field_is_in(said_in_replies, f.name))
			http_reply_header(req, f.name, f.value);
	}
	relay_reply_upgrade(req, head);
}
