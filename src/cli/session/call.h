// SPDX-License-Identifier: Apache-2.0
#pragma once
/* One call: code run in a context, shown as it goes. What code and repl do once they have the code.
 */
#include "cli/remote/cancel.h"
#include "cli/session/show.h"

struct call {
	struct remote *remote; /* borrowed, like all that follows */
	struct cancel *cancel;
	struct show *show;
	const char *sandbox;  /* id or name */
	const char *language; /* NULL = the context's, or python */
	const char *context;  /* NULL = the language's default */
	uint64_t timeout_ms;  /* 0 = none */
};

struct call_end {
	int status;   /* the exit status that tells how it went, as cli.h lists them */
	bool is_exit; /* the code asked to end the interpreter */
};

/* Runs it to its end. < 0 with err where it could not be run, or is lost. */
must_check int call_run(const struct call *c, const char *code, size_t len, struct call_end *ret,
                        struct err *err);
