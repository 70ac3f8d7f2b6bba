// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The frames between daemon and guest agent: api/agent-protocol.md, byte by byte. One byte stream:
 * the host asks and the agent answers; the guest never sends a request. All input is untrusted: the
 * decoder bounds each length before it allocates, and knows for each type who may send it.
 *
 *	u32 payload length | u8 type | u8 flags (0) | u16 reserved (0) | u32 channel | u32 epoch
 *
 * A channel is one exec or one file operation, numbered by the host and never reused in a sandbox's
 * life. Output carries its byte offset in the channel and stays in the agent until the host
 * acknowledges it: a host that dies and comes back resumes at the offset it has, without gap or
 * repeat. The epoch counts the host's connections; a frame of another epoch is stale and refused.
 */
#include "base/buf.h"
#include "base/err.h"
#include "proto/pack.h"

#define FRAME_VERSION      1
#define FRAME_HEAD_SIZE    16
#define FRAME_PAYLOAD_MAX  (256 * 1024)
#define FRAME_DATA_MAX     (64 * 1024)  /* data bytes in one OUTPUT or INPUT frame */
#define FRAME_WINDOW       (256 * 1024) /* bytes in flight on a channel, each way */
#define FRAME_CHANNELS     1024         /* channels open at once */
#define FRAME_HOSTNAME_MAX 64           /* bytes in HELLO's host name */
#define FRAME_REASON_MAX   255          /* bytes in IMPRINT's reason */

enum frame_type {
	/* host to agent */
	FRAME_HELLO = 1, /* version u32, wall clock u64 us, 32 random bytes, hostname str: first
	                    frame of a connection */
	FRAME_START,     /* struct start (start.h) */
	FRAME_INPUT,     /* stdin bytes */
	FRAME_INPUT_END, /* close stdin */
	FRAME_ACK,       /* u64: host has kept output up to here; not more than was sent */
	FRAME_SIGNAL,    /* u8 signal, u8 scope (enum frame_scope) */
	FRAME_RESIZE,    /* u16 rows, u16 columns */
	FRAME_RESUME,    /* u64: after HELLO, send this channel's output from here on; counts as an
	                    ACK. STARTED, INPUT_ACK, EXIT and CLOSED are repeated if they apply */
	FRAME_FORGET,    /* the host has recorded the end of this channel, and its number is done.
	                    Kills the whole tree, unless the channel was CLOSED: then processes that
	                    still run have closed its output and live on (kill them with SIGNAL first)
	                  */
	FRAME_PING,      /* u64 echoed in PONG; of several waiting ones only the last is */
	FRAME_SHUTDOWN,  /* end all, sync, power off (vm) or exit (jail) */
	FRAME_QUIESCE,   /* a token (quiet.h): disconnect from the host; sent without a HELLO */

	/* agent to host */
	FRAME_WELCOME = 64, /* version u32, channel count u32, then per channel: u32 number, str
	                       tag, u8 state, u64 acked, u64 end */
	FRAME_STARTED,      /* u32 pid inside */
	FRAME_OUTPUT,       /* u64 offset, u8 stream (enum frame_stream), bytes */
	FRAME_INPUT_ACK, /* u64: stdin bytes taken so far; the host may send FRAME_WINDOW past it.
	                    After a RESUME the first one says how much has arrived: the host
	                    continues there. One that says the last count again says that the
	                    program has closed its stdin, and more will be thrown away */
	FRAME_EXIT, /* struct channel_exit (start.h); output that exists then was sent before it */
	FRAME_CLOSED,  /* all output of the channel is sent, nothing follows (after EXIT) */
	FRAME_PONG,    /* u64 */
	FRAME_IMPRINT, /* str: "" with an fd, the imprint of this channel's kernel; else why there
	                  is none */
};

enum frame_stream { STREAM_STDOUT = 1, STREAM_STDERR = 2, STREAM_RECORD = 3 };
enum frame_scope { SCOPE_PROCESS = 0, SCOPE_GROUP = 1, SCOPE_TREE = 2 };

/* A channel's state in WELCOME. */
enum frame_state { CHANNEL_RUNNING = 1, CHANNEL_EXITED = 2, CHANNEL_CLOSED = 3 };

enum frame_side { FRAME_FROM_HOST, FRAME_FROM_AGENT };

struct frame {
	enum frame_type type;
	uint32_t channel;
	uint32_t epoch;
	const unsigned char *payload; /* borrowed from the buf until frame_consume() */
	size_t len;
};

/* Appends a whole frame. -E2BIG if that exceeds the buf's cap or FRAME_PAYLOAD_MAX; the buf is then
 * unchanged. */
must_check int frame_put(struct buf *out, enum frame_type type, uint32_t channel, uint32_t epoch,
                         const void *payload, size_t len);
/* The header alone, for a payload of len bytes that the caller appends in pieces. */
must_check int frame_put_head(struct buf *out, enum frame_type type, uint32_t channel,
                              uint32_t epoch, size_t len);
/* An OUTPUT frame, its bytes copied once. */
must_check int frame_put_output(struct buf *out, uint32_t channel, uint32_t epoch, uint64_t offset,
                                enum frame_stream stream, const char *data, size_t len);
/*
 * Looks at the front of in: 1 and *ret if a whole frame is there, 0 if more bytes are needed,
 * -EPROTO if it is not a frame that `from` may send. The caller checks the epoch. frame_consume()
 * drops the frame.
 */
must_check int frame_get(const struct buf *in, enum frame_side from, struct frame *ret);
void frame_consume(struct buf *in, const struct frame *f);
const char *frame_type_name(enum frame_type type);
