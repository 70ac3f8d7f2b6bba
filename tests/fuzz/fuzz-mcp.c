// SPDX-License-Identifier: Apache-2.0
/* A message of an MCP client. What is accepted has a method and an id that can be told again; what
 * is refused is answered with a message that is JSON. */
#include "mcp/rpc.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const struct rpc_message *m, int code, const struct err *err)
{
	auto_call(buf_done) struct buf out = BUF_INIT(64 * 1024);
	auto_json json_t *reply = NULL;

	assert(code < 0 && err->message[0] != '\0');
	assert(rpc_put_error(&out, m->id, code, err->message, err->hint) == 0);
	assert(json_parse(out.data, out.len, &reply, NULL) == 0);
	assert(!memchr(out.data, '\n', out.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *body = NULL;
	struct rpc_message m;
	struct err err = {0};
	int code;

	if (json_parse((const char *)data, size, &body, &err) < 0)
		return 0;
	code = rpc_read(body, &m, &err);
	if (code != 0) {
		check_error(&m, code, &err);
		return 0;
	}
	assert(m.kind == RPC_RESPONSE || (m.method && strlen(m.method) <= RPC_TEXT_MAX));
	assert((m.kind == RPC_REQUEST) == (m.id && m.method));
	assert(!m.params || json_is_object(m.params));
	assert(rpc_pick_version(m.params));
	(void)rpc_param(&m, "name");
	return 0;
}
