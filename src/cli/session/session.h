// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One exec with our own stdin, stdout, stderr, terminal and signals: what run, exec and shell do
 * once they know the words.
 */
#include "cli/remote/interrupt.h"
#include "cli/remote/remote.h"

struct session {
	struct remote *remote;
	const char *sandbox; /* id or name */
	json_t *body;        /* of POST …/execs; stdin and terminal are filled in here */
	bool wants_stdin;    /* pass ours on */
	bool wants_pty;      /* a terminal inside, ours in raw mode */
	bool json;           /* one JSON answer instead of the output as it comes */
	struct interrupt *interrupt;
};

/* Runs it to its end: the exit status of `cloche`, or < 0 with err. */
must_check int session_run(struct session *s, struct err *err);

/* Says on stderr what the exit status alone cannot, and gives that, as cli.h lists them. */
int session_tell_end(const json_t *exec);
/* The same where the exec could not be started: EXIT_NOT_FOUND, EXIT_NOT_EXECUTABLE or
 * EXIT_CLOCHE. */
int session_start_status(const struct err *err);
