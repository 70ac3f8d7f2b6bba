// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/hop/hop_heads.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

static const char *const hop_by_hop[] = {"Connection",
                                         "Keep-Alive",
                                         "Proxy-Connection",
                                         "Proxy-Authenticate",
                                         "Proxy-Authorization",
                                         "TE",
                                         "Trailer",
                                         "Transfer-Encoding",
                                         "Upgrade",
                                         "Content-Length",
                                         "Expect",
                                         NULL};
/* What this gateway says itself: a client cannot say them for it. */
static const char *const said_by_us[] = {"X-Request-Id", HTTP_CLIENT_FIELD, NULL};
static const char *const said_in_replies[] = {"Server", "Date", "X-Request-Id",
                                              "X-Content-Type-Options", NULL};

static bool is_in(const char *const *list, const char *name)
{
	for (; *list; list++)
		if (strcasecmp(*list, name) == 0)
			return true;
	return false;
}

/* Fields that end at this connection, also those that "Connection" names. A client that names its
 * own credential there loses it, and the owner refuses the request. */
static bool is_of_connection(const struct http_head *head, const char *name)
{
	if (is_in(hop_by_hop, name))
		return true;
	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_field f = http_head_field(head, i);

		if (strcasecmp(f.name, "Connection") == 0 && http_list_has(f.value, name))
			return true;
	}
	return false;
}

static int put_framing(const struct http_head *head, struct buf *out)
{
	if (head->framing == HTTP_CHUNKED)
		return buf_append_str(out, "Transfer-Encoding: chunked\r\n");
	if (head->framing == HTTP_LENGTH)
		return buf_printf(out, "Content-Length: %" PRIu64 "\r\n", head->length);
	return 0;
}

int hop_heads_request(const struct http_req *req, struct buf *out)
{
	const struct http_head *head = http_req_head(req);
	int r = buf_printf(out, "%s %s HTTP/1.1\r\n", head->method, head->target);

	if (r == 0)
		r = http_encode_field(out, "X-Request-Id", http_request_id(req));
	if (r == 0 && http_peer(req)[0])
		r = http_encode_field(out, HTTP_CLIENT_FIELD, http_peer(req));
	if (r == 0)
		r = put_framing(head, out);
	for (size_t i = 0; r == 0 && i < head->n_fields; i++) {
		struct http_field f = http_head_field(head, i);

		if (!is_of_connection(head, f.name) && !is_in(said_by_us, f.name))
			r = http_encode_field(out, f.name, f.value);
	}
	if (r == 0 && head->is_upgrade) {
		r = buf_append_str(out, "Connection: Upgrade\r\n");
		if (r == 0)
			r = http_encode_field(out, "Upgrade", http_head_find(head, "Upgrade"));
	}
	return r == 0 ? buf_append(out, "\r\n", 2) : r;
}

void hop_heads_reply(struct http_req *req, const struct http_head *head)
{
	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_field f = http_head_field(head, i);

		if (!is_of_connection(head, f.name) && !is_in(said_in_replies, f.name))
			http_reply_header(req, f.name, f.value);
	}
	if (head->status == 101) {
		const char *protocol = http_head_find(head, "Upgrade");

		http_reply_header(req, "Connection", "Upgrade");
		http_reply_header(req, "Upgrade", protocol ? protocol : "");
	}
}
