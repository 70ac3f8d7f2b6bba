// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * An exec's event stream, read to its end. When the connection breaks in the middle, the exec goes
 * on without us: it is asked for again from the last sequence number seen, so that nothing is
 * printed twice and nothing is missing.
 */
#include "cli/remote/remote.h"
#include "cli/term/output.h"

struct events {
	struct remote *remote; /* borrowed, and not used by anybody else meanwhile */
	const char *sandbox;   /* id or name */
	struct output *output; /* borrowed */
	void (*on_started)(const char *exec_id, void *arg); /* once; may be NULL */
	void *arg;
	char *exec_id; /* set by events_start()'s first event, or by the caller */
	uint64_t last_seq;
	json_t *exec; /* as it ended; NULL until then */
};

void events_done(struct events *e);
/* Starts an exec; what it says is read by events_follow(). */
must_check int events_start(struct events *e, const json_t *body, struct err *err);
/* Asks for the output of exec_id behind last_seq, and with follow for what is to come. */
must_check int events_resume(struct events *e, bool follow, struct err *err);
/* Reads the stream. 1: the exec is over, and exec is set. 0: the stream ended before. */
must_check int events_read(struct events *e, struct err *err);
/* The same until the exec is over, coming back whenever the connection breaks. */
must_check int events_follow(struct events *e, struct err *err);
