// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Holds what a run gave against what its case claims. */
#include "cli/eval/eval_run.h"

/* Adds a sentence to the reasons. */
void eval_reason(struct eval_result *r, const char *fmt, ...) printf_like(2, 3);
/* All but the claims about files. */
void eval_judge(const struct eval_case *c, struct eval_result *r);
/* One claim, with the text that it is about (NULL: there is no such file). */
void eval_judge_claim(const struct eval_claim *claim, const char *text, struct eval_result *r);
