// SPDX-License-Identifier: Apache-2.0
/*
 * One table holds what can be checked without knowing a frame's meaning: who sends the type,
 * whether it belongs to a channel, and how long its payload may be. A header that breaks its row is
 * refused as soon as its 16 bytes are there, before any payload.
 */
#include "proto/frame.h"

#include "proto/quiet.h"

#include <endian.h>
#include <string.h>

#define WORD_SIZE     8 /* a payload that is one u64 */
#define HELLO_SIZE    (4 + 8 + 32 + 4)
#define WELCOME_SIZE  (4 + 4)
#define OUTPUT_HEAD   (8 + 1)
#define START_SIZE    (1 + 4 + 4)
#define EXIT_SIZE_MIN (1 + 4 + 1 + 4 + 5 * 8 + 4)

/* clang-format off */
static const struct row {
	const char *name; /* NULL: no such type */
	enum frame_side from;
	bool has_channel;
	uint32_t min, max; /* payload bytes */
} rows[] = {
	[FRAME_HELLO]     = {"hello",     FRAME_FROM_HOST,  false, HELLO_SIZE, HELLO_SIZE + FRAME_HOSTNAME_MAX},
	[FRAME_START]     = {"start",     FRAME_FROM_HOST,  true,  START_SIZE, FRAME_PAYLOAD_MAX},
	[FRAME_INPUT]     = {"input",     FRAME_FROM_HOST,  true,  1, FRAME_DATA_MAX},
	[FRAME_INPUT_END] = {"input_end", FRAME_FROM_HOST,  true,  0, 0},
	[FRAME_ACK]       = {"ack",       FRAME_FROM_HOST,  true,  WORD_SIZE, WORD_SIZE},
	[FRAME_SIGNAL]    = {"signal",    FRAME_FROM_HOST,  true,  2, 2},
	[FRAME_RESIZE]    = {"resize",    FRAME_FROM_HOST,  true,  4, 4},
	[FRAME_RESUME]    = {"resume",    FRAME_FROM_HOST,  true,  WORD_SIZE, WORD_SIZE},
	[FRAME_FORGET]    = {"forget",    FRAME_FROM_HOST,  true,  0, 0},
	[FRAME_PING]      = {"ping",      FRAME_FROM_HOST,  false, WORD_SIZE, WORD_SIZE},
	[FRAME_SHUTDOWN]  = {"shutdown",  FRAME_FROM_HOST,  false, 0, 0},
	[FRAME_QUIESCE]   = {"quiesce",   FRAME_FROM_HOST,  false, QUIET_TOKEN_SIZE, QUIET_TOKEN_SIZE},
	[FRAME_WELCOME]   = {"welcome",   FRAME_FROM_AGENT, false, WELCOME_SIZE, FRAME_PAYLOAD_MAX},
	[FRAME_STARTED]   = {"started",   FRAME_FROM_AGENT, true,  4, 4},
	[FRAME_OUTPUT]    = {"output",    FRAME_FROM_AGENT, true,  OUTPUT_HEAD + 1, OUTPUT_HEAD + FRAME_DATA_MAX},
	[FRAME_INPUT_ACK] = {"input_ack", FRAME_FROM_AGENT, true,  WORD_SIZE, WORD_SIZE},
	[FRAME_EXIT]      = {"exit",      FRAME_FROM_AGENT, true,  EXIT_SIZE_MIN, EXIT_SIZE_MIN + 255},
	[FRAME_CLOSED]    = {"closed",    FRAME_FROM_AGENT, true,  0, 0},
	[FRAME_PONG]      = {"pong",      FRAME_FROM_AGENT, false, WORD_SIZE, WORD_SIZE},
	[FRAME_IMPRINT]   = {"imprint",   FRAME_FROM_AGENT, true,  4, 4 + FRAME_REASON_MAX},
};
/* clang-format on */

const char *frame_type_name(enum frame_type type)
{
	return (size_t)type < ARRAY_SIZE(rows) && rows[type].name ? rows[type].name : "unknown";
}

int frame_put_head(struct buf *out, enum frame_type type, uint32_t channel, uint32_t epoch,
                   size_t len)
{
	struct pack p = {.out = out};
	char *room;
	int r;

	if (len > FRAME_PAYLOAD_MAX)
		return -E2BIG;
	r = buf_reserve(out, FRAME_HEAD_SIZE, &room);
	if (r < 0)
		return r;
	pack_u32(&p, (uint32_t)len);
	pack_u8(&p, (uint8_t)type);
	pack_u8(&p, 0);
	pack_u16(&p, 0);
	pack_u32(&p, channel);
	pack_u32(&p, epoch);
	return p.error;
}

int frame_put(struct buf *out, enum frame_type type, uint32_t channel, uint32_t epoch,
              const void *payload, size_t len)
{
	char *room;
	int r;

	if (len > FRAME_PAYLOAD_MAX)
		return -E2BIG;
	/* With room for all of it, nothing can fail halfway. */
	r = buf_reserve(out, FRAME_HEAD_SIZE + len, &room);
	if (r >= 0)
		r = frame_put_head(out, type, channel, epoch, len);
	return r < 0 ? r : buf_append(out, payload, len);
}

int frame_put_output(struct buf *out, uint32_t channel, uint32_t epoch, uint64_t offset,
                     enum frame_stream stream, const char *data, size_t len)
{
	auto_call(buf_done) struct buf head = BUF_INIT(9);
	struct pack p = {.out = &head};
	char *room;
	int r;

	pack_u64(&p, offset);
	pack_u8(&p, (uint8_t)stream);
	if (p.error < 0)
		return p.error;
	r = buf_reserve(out, FRAME_HEAD_SIZE + head.len + len, &room);
	if (r < 0)
		return r;
	r = frame_put_head(out, FRAME_OUTPUT, channel, epoch, head.len + len);
	if (r >= 0)
		r = buf_append(out, head.data, head.len);
	return r < 0 ? r : buf_append(out, data, len);
}

static bool head_is_good(const struct row *row, enum frame_side from, size_t len, uint32_t channel)
{
	return row->name && row->from == from && row->has_channel == (channel != 0) &&
	       len >= row->min && len <= row->max;
}

int frame_get(const struct buf *in, enum frame_side from, struct frame *ret)
{
	struct unpack u = {.data = (const unsigned char *)in->data, .len = FRAME_HEAD_SIZE};
	struct frame f;
	uint8_t type;

	if (in->len < FRAME_HEAD_SIZE)
		return 0;
	f.len = unpack_u32(&u);
	type = unpack_u8(&u);
	if (unpack_u8(&u) != 0 || unpack_u16(&u) != 0)
		return -EPROTO;
	f.channel = unpack_u32(&u);
	f.epoch = unpack_u32(&u);
	if (type >= ARRAY_SIZE(rows) || !head_is_good(&rows[type], from, f.len, f.channel))
		return -EPROTO;
	if (in->len - FRAME_HEAD_SIZE < f.len)
		return 0;
	f.type = (enum frame_type)type;
	f.payload = u.data;
	*ret = f;
	return 1;
}

void frame_consume(struct buf *in, const struct frame *f)
{
	buf_consume(in, FRAME_HEAD_SIZE + f->len);
}
