// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Parses the messages of an interpreter's driver (kernels/PROTOCOL.md). User code runs in the
 * driver's process and may write anything here, so nothing is trusted. A malformed head or a
 * payload past its bound is an error of the stream. A payload that cannot be read costs only that
 * one message, so that a strange value does not cost the interpreter its state.
 */
#include "base/json/json.h"

#define DRIVER_MESSAGE_HEAD_MAX    64 /* with its newline */
#define DRIVER_MESSAGE_PAYLOAD_MAX (16 * 1024 * 1024)
#define DRIVER_MESSAGE_MAX         (DRIVER_MESSAGE_HEAD_MAX + DRIVER_MESSAGE_PAYLOAD_MAX)

enum driver_message_verb {
	DRIVER_MESSAGE_READY,
	DRIVER_MESSAGE_RESULT,
	DRIVER_MESSAGE_DISPLAY,
	DRIVER_MESSAGE_ERROR,
	DRIVER_MESSAGE_DONE,
	DRIVER_MESSAGE_VERB_COUNT
};

struct driver_message {
	enum driver_message_verb verb;
	uint32_t call; /* 0: of none */
	const char *payload;
	size_t len;
	size_t size; /* of the whole message, to be consumed */
};

/* Looks at the front of in: 1 and *ret if a whole message is there, 0 if more bytes are needed,
 * -EPROTO. */
must_check int driver_message_get(const struct buf *in, struct driver_message *ret);
/* Appends a head for a payload of len bytes that follows. */
must_check int driver_message_put_head(struct buf *out, const char *verb, uint32_t call,
                                       size_t len);

/* RESULT, DISPLAY: {data, metadata, truncated?}; ERROR: {name, message, traceback}. Always returns
 * an object, which the caller owns: an unreadable payload is replaced by a note. */
json_t *driver_message_bundle(const struct driver_message *m);
json_t *driver_message_error(const struct driver_message *m);
json_t *driver_message_make_error(const char *name, const char *message);

enum done_status { DONE_OK, DONE_ERROR, DONE_EXIT };
struct driver_message_done {
	enum done_status status;
	uint64_t count;
	uint32_t exit_code; /* DONE_EXIT */
	bool has_cpu;
	uint64_t cpu_us; /* the driver's word */
};
/* Why the answer to `save` is a refusal, or NULL; the caller owns it. */
char *driver_message_refusal(const struct driver_message *m);
/* READY, and DONE that answers `sync`: whether the driver says that it knows `save`, or `env`.
 * Drivers from before that live on in sandboxes, and an unknown message ends them. */
bool driver_message_can_save(const struct driver_message *m);
bool driver_message_takes_env(const struct driver_message *m);
must_check int driver_message_done(const struct driver_message *m,
                                   struct driver_message_done *ret); /* -EPROTO */
