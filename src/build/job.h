// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the files of a job share: job.c moves it from step to step, job_script.c runs a step's
 * script and judges it, job_end.c ends it or lets it start again.
 */
#include "build/build_private.h"

/* job.c */
struct sandbox *job_sandbox(const struct build *b); /* of its step, or NULL */
/* The step is complete: deletes its sandbox, unless the next step uses it too, and goes on. */
void job_leave_step(struct build *b);
/* Finds what it starts from, and begins with the first step, or waits. */
void job_set_out(struct build *b);
void job_set_out_in(struct build *b, uint64_t in_us);

/* job_script.c */
void job_new_report(struct build *b); /* of the next script; forgets the last one's */
void job_run_script(struct build *b, struct sandbox *s);
void job_follow(struct build *b, struct exec *e); /* a script that runs */
/* What a step has found out, for the template's manifest. */
void job_keep_report(struct build *b, const json_t *report);

/* job_end.c */
void job_note(const struct build *b); /* writes the row; if that fails, the next change writes it */
void job_end(struct build *b, const struct err *err); /* err NULL: it was cancelled */
void job_publish(struct build *b);     /* the last step is complete: names the template, and ends */
bool job_is_given_up(struct build *b); /* it was cancelled: it ends */
/* Starts from the first step after a pause, with the archive's state of then; complete steps are in
 * the cache. */
void job_try_again(struct build *b, const struct err *err);
