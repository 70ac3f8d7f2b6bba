// SPDX-License-Identifier: Apache-2.0
#include "http/relay/relay_heads.h"

#include <ctype.h>
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
                                         NULL};

/* Whether the first len bytes of both agree. */
static bool is_named(const char *field, const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = field[i] == '_' ? '-' : field[i];

		if (tolower((unsigned char)c) != tolower((unsigned char)name[i]))
			return false;
		if (c == '\0')
			break;
	}
	return true;
}

bool relay_field_begins(const char *field, const char *begin)
{
	return is_named(field, begin, strlen(begin));
}

bool relay_field_is_in(const char *const *list, const char *field)
{
	for (; *list; list++)
		if (is_named(field, *list, strlen(*list) + 1))
			return true;
	return false;
}

bool relay_field_is_of_connection(const struct http_head *head, const char *field)
{
	if (relay_field_is_in(hop_by_hop, field))
		return true;
	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_field f = http_head_field(head, i);

		if (strcasecmp(f.name, "Connection") == 0 && http_list_has(f.value, field))
			return true;
	}
	return false;
}

int relay_put_framing(const struct http_head *head, struct buf *out)
{
	if (head->framing == HTTP_CHUNKED)
		return buf_append_str(out, "Transfer-Encoding: chunked\r\n");
	if (head->framing == HTTP_LENGTH)
		return buf_printf(out, "Content-Length: %" PRIu64 "\r\n", head->length);
	return 0;
}

int relay_put_upgrade(const struct http_head *head, struct buf *out)
{
	int r = buf_append_str(out, "Connection: Upgrade\r\n");

	return r == 0 ? http_encode_field(out, "Upgrade", http_head_find(head, "Upgrade")) : r;
}

void relay_reply_upgrade(struct http_req *req, const struct http_head *head)
{
	const char *protocol = http_head_find(head, "Upgrade");

	if (head->status != 101)
		return;
	http_reply_header(req, "Connection", "Upgrade");
	http_reply_header(req, "Upgrade", protocol ? protocol : "");
}
