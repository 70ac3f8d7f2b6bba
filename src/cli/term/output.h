// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Where an exec's output goes: to our own stdout and stderr byte for byte, as event lines, or
 * gathered for one JSON answer. Writing waits for the reader: that is the back-pressure.
 */
#include "base/json/json.h"

enum output_mode {
	OUTPUT_RAW,    /* stdout to stdout, stderr to stderr, as the bytes are */
	OUTPUT_EVENTS, /* each event as a line of JSON, as the API sent it */
	OUTPUT_GATHER, /* kept, and printed by output_print_result() */
};

#define OUTPUT_GATHER_MAX (16 * 1024 * 1024)
#define OUTPUT_LAST_SIZE  1024

struct output {
	enum output_mode mode;
	struct buf kept[2]; /* stdout, stderr */
	bool is_cut[2];
	char last[OUTPUT_LAST_SIZE]; /* of what went to stderr as it was */
	size_t last_len;
	bool is_mid_line; /* what was written last did not end its line */
};

void output_init(struct output *o, enum output_mode mode);
void output_done(struct output *o);
/* One event, parsed and as its line. -EPIPE: the reader of our stdout has left. */
must_check int output_event(struct output *o, const json_t *event, const char *line, size_t len,
                            struct err *err);
/* {"exec", "stdout", "stderr", …} as a plain POST …/execs answers. */
void output_print_result(const struct output *o, const json_t *exec);
