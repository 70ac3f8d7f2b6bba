// SPDX-License-Identifier: Apache-2.0
/* The first byte says which side speaks and how the stream is cut; the rest is the stream. */
#include "base/buf.h"
#include "proto/frame.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(buf_done) struct buf in = BUF_INIT(FRAME_HEAD_SIZE + FRAME_PAYLOAD_MAX);
	size_t piece;
	enum frame_side side;

	if (size == 0)
		return 0;
	side = data[0] & 1 ? FRAME_FROM_AGENT : FRAME_FROM_HOST;
	piece = (size_t)(data[0] >> 1) * 37 + 1;
	for (size_t at = 1; at < size; at += piece) {
		struct frame f;
		int r = 0;

		if (buf_append(&in, data + at, MIN(piece, size - at)) < 0)
			return 0;
		while ((r = frame_get(&in, side, &f)) > 0) {
			auto_call(buf_done) struct buf again =
				BUF_INIT(FRAME_HEAD_SIZE + FRAME_PAYLOAD_MAX);

			/* What is a frame encodes to the very same bytes. */
			if (frame_put(&again, f.type, f.channel, f.epoch, f.payload, f.len) < 0 ||
			    memcmp(again.data, in.data, again.len) != 0)
				abort();
			frame_consume(&in, &f);
		}
		if (r < 0)
			return 0;
	}
	return 0;
}
