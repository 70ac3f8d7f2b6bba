// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A call's events for people: what the code prints goes to our stdout and stderr byte for byte, as
 * with an exec; results to stdout and tracebacks to stderr as text, with what could drive a
 * terminal escaped; images into files. Or, for programs, every event as its line of JSON.
 */
#include "cli/term/output.h"
#include "cli/term/result_image.h"

struct show {
	struct output output; /* OUTPUT_RAW or OUTPUT_EVENTS */
	struct result_images images;
	bool names_forms; /* say which other forms a result has: html, latex, … */
};

/* One event, parsed and as its line. -EPIPE: the reader of our stdout has left. */
must_check int show_event(struct show *s, const json_t *event, const char *line, size_t len,
                          struct err *err);
/* Ends a line that the code has begun, so that a prompt or message can follow. */
void show_finish_line(struct show *s);
