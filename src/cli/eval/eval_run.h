// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One run of one case, in a sandbox of its own:
 *
 *	create --> files --> code, command, or turns of a model
 *	       --> check --> usage --> judge --> remove
 *
 * What the case claims and what does not hold is a failure; what kept it from being tried (no
 * sandbox, no model) is an error.
 */
#include "cli/eval/eval_suite.h"
#include "cli/remote/remote.h"

enum eval_verdict { EVAL_NOT_RUN, EVAL_PASSED, EVAL_FAILED, EVAL_ERROR };

struct eval_result {
	enum eval_verdict verdict;
	json_t *reasons; /* sentences: what did not hold, or the error */
	char *output;    /* the model's last words; of code and commands the same as out */
	char *out, *err; /* stdout and stderr of what ran last */
	bool has_exit_code;
	int exit_code;
	uint64_t time_ms, cost_nano, calls;
	uint64_t input_tokens, output_tokens;
	char currency[8];
	char *sandbox; /* its id, while it is there */
};
void eval_result_done(struct eval_result *r);

/* Who runs cases. The main thread may read `sandbox`, and remove it, under the lock. */
struct eval_lane {
	struct remote *remote;
	bool keeps; /* the sandbox of a run that did not pass */
	void (*has_sandbox)(struct eval_lane *lane, const char *id); /* NULL: no more */
	bool (*is_stopped)(struct eval_lane *lane);
};

void eval_run(struct eval_lane *lane, const struct eval_suite *suite, const struct eval_case *c,
              struct eval_result *ret);
/* What the case's sandbox is to be; *ret is for json_decref(). */
must_check int eval_run_spec(const struct eval_case *c, json_t **ret, struct err *err);
