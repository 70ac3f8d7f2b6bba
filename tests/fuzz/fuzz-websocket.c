// SPDX-License-Identifier: Apache-2.0
/* WebSocket frames from a client or a server (the first byte says which, and the step of feeding).
 * What is decoded is encoded again and must come back the same. */
#include "base/parse.h"
#include "http/websocket.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (256 * 1024)

static void check_round_trip(enum ws_opcode op, const char *data, size_t len)
{
	static const unsigned char mask[4] = {1, 2, 3, 4};
	auto_call(buf_done) struct buf wire = BUF_INIT(INPUT_MAX * 2);
	struct ws_codec codec;
	enum ws_opcode op_back = WS_CONTINUE;
	const char *back = NULL;
	size_t back_len = 0;

	ws_codec_init(&codec, /* is_server= */ true);
	if (ws_encode(&wire, op, data, len, mask) < 0)
		abort();
	if (ws_decode(&codec, &wire, &op_back, &back, &back_len) != 1)
		abort();
	assert(op == op_back && len == back_len && wire.len == 0);
	assert(len == 0 || memcmp(data, back, len) == 0);
	ws_codec_done(&codec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(buf_done) struct buf in = BUF_INIT(INPUT_MAX);
	struct ws_codec codec;
	int r = 0;

	if (size < 2 || size > INPUT_MAX)
		return 0;
	ws_codec_init(&codec, data[0] & 1);
	for (size_t at = 1, step = (data[0] >> 1) + 1U; at < size && r >= 0; at += step) {
		enum ws_opcode op;
		const char *message;
		size_t len;

		if (buf_append(&in, data + at, MIN(step, size - at)) < 0)
			abort();
		while ((r = ws_decode(&codec, &in, &op, &message, &len)) == 1) {
			assert(op != WS_CONTINUE && len <= WS_MESSAGE_MAX);
			assert(op != WS_TEXT || utf8_is_valid(message, len));
			check_round_trip(op, message, len);
		}
	}
	assert(r == 0 || r == -EPROTO || r == -EMSGSIZE || r == -EILSEQ);
	ws_codec_done(&codec);
	return 0;
}
