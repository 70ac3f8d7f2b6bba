// SPDX-License-Identifier: Apache-2.0
/*
 * A request on its way through the wall. Whatever a guest sends, what is written anew is one
 * request that a server reads as the judge has: same method, host, path and framing, and nothing
 * behind it.
 */
#include "wall/proxy_head.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES_MAX ((size_t)128 * 1024)

static void check_written(const struct http_head *from, const struct proxy_request *request,
                          struct buf *written)
{
	struct proxy_request again;
	struct http_head head;
	struct err err;
	const char *why = "";

	http_head_init(&head, HTTP_REQUEST);
	assert(http_head_read(&head, written, &err) == 1);
	assert(written->len == 0);
	assert(strcmp(head.method, from->method) == 0);
	assert(head.framing == from->framing && head.length == from->length);
	assert(head.is_upgrade == request->is_upgrade);
	assert(request->is_upgrade ||
	       (!http_head_find(&head, "connection") && !http_head_find(&head, "upgrade")));
	assert(proxy_request_read(&head, &again, &why) == 0);
	assert(host_is_equal(&again.host, &request->host) && again.port == request->port);
	assert(strcmp(again.path.text, request->path.text) == 0);
	proxy_request_done(&again);
	http_head_done(&head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf in = BUF_INIT(BYTES_MAX), out = BUF_INIT(BYTES_MAX);
	const struct proxy_rewrite unchanged = {0};
	struct proxy_request request;
	struct http_head head;
	const char *why = "";
	struct err err;

	http_head_init(&head, HTTP_PROXY_REQUEST);
	if (size <= BYTES_MAX && buf_append(&in, data, size) == 0 &&
	    http_head_read(&head, &in, &err) == 1 &&
	    proxy_request_read(&head, &request, &why) == 0) {
		if (proxy_request_write(&out, &head, &request, &unchanged) == 0 &&
		    out.len <= HTTP_HEAD_MAX)
			check_written(&head, &request, &out);
		proxy_request_done(&request);
	}
	http_head_done(&head);
	buf_done(&in);
	buf_done(&out);
	return 0;
}
