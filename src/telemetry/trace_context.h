// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The trace that a client's request belongs to, as W3C Trace Context has it: the header fields
 * `traceparent` and `tracestate`. They come from strangers. What breaks the rules is as if it were
 * not there, as that standard wants it: no request fails for it.
 */
#include "base/auto.h"

#include <stdbool.h>
#include <stdint.h>

#define TRACE_ID_LEN     16
#define SPAN_ID_LEN      8
#define TRACEPARENT_SIZE 56  /* "00-", 32 digits, "-", 16 digits, "-01", NUL */
#define TRACESTATE_SIZE  513 /* what everybody has to pass on, and a NUL */

struct trace_context {
	uint8_t trace_id[TRACE_ID_LEN], span_id[SPAN_ID_LEN];
	bool is_sampled;
	char state[TRACESTATE_SIZE]; /* as it came; "": none */
};

/* Without the state, which becomes "". -EINVAL: it is to be ignored. */
must_check int trace_context_parse(const char *traceparent, struct trace_context *ret);
/* Whether a tracestate may be passed on: its length, its members and their letters. */
bool trace_state_is_valid(const char *text);
void trace_context_format(const uint8_t trace_id[TRACE_ID_LEN], const uint8_t span_id[SPAN_ID_LEN],
                          bool is_sampled, char ret[TRACEPARENT_SIZE]);
/* Lower-case digits, with a NUL behind them. */
void trace_hex(const uint8_t *bytes, size_t len, char *ret);
