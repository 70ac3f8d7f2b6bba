// SPDX-License-Identifier: Apache-2.0
/* How a build ends, and how it starts again from its first step. */
#include "build/job.h"

#include "base/clock.h"
#include "base/log.h"
#include "build/bases.h"
#include "build/carry.h"
#include "build/fill.h"
#include "build/part.h"

#define RETRY_US                                                                                   \
	(UINT64_C(5) * 1000 * 1000) /* before the second try; thrice as long before each other */

void job_note(const struct build *b)
{
	struct err err;

	if (build_save(b, &err) < 0)
		log_warn("build.not_saved", "id=%s why='%s'", b->id, err.message);
}

static void finish(struct build *b)
{
	b->phase = PHASE_NONE;
	b->ended_us = clock_wall_us();
	b->sandbox_id[0] = b->exec_id[0] = '\0';
	if (b->is_cancelled)
		b->state = BUILD_CANCELLED;
	else
		b->state = b->error.code == ERR_NONE ? BUILD_READY : BUILD_FAILED;
	if (b->state != BUILD_FAILED)
		b->error = (struct err){0};
	else
		build_say(b, b->error.message);
	log_info("build.ended", "id=%s name=%s state=%s", b->id, build_name(b),
	         build_state_name(b->state));
	spool_rest(build_log(b));
	job_note(b);
	build_emit(b, EVENT_BUILD_ENDED);
	builds_on_ended(b);
}

static void on_end_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	finish(arg);
}

void job_end(struct build *b, const struct err *err)
{
	struct sandbox *s = job_sandbox(b);

	exec_watch_remove(&b->watch);
	loop_timer_free(b->retry);
	loop_timer_free(b->unlock);
	b->retry = b->unlock = NULL;
	fill_cancel(&b->fill);
	carry_cancel(&b->carry);
	bases_leave(b);
	if (err && b->error.code == ERR_NONE)
		b->error = *err;
	b->phase = PHASE_DELETING;
	if (s)
		sandbox_delete(s, END_DELETED, on_end_deleted, b);
	else
		finish(b);
}

bool job_is_given_up(struct build *b)
{
	if (b->is_cancelled)
		job_end(b, NULL);
	return b->is_cancelled;
}

void job_publish(struct build *b)
{
	struct err err = {0};

	if (publish_build(b, &err) < 0)
		job_end(b, &err);
	else
		finish(b);
}

static void pause_job(struct build *b)
{
	uint64_t in_us = RETRY_US;
	auto_free char *text = NULL;

	for (uint32_t i = 2; i < b->tries; i++)
		in_us *= 3;
	text = xasprintf("== trying again in %u s", (unsigned)(in_us / 1000000));
	build_say(b, text);
	b->phase = PHASE_PAUSING;
	job_set_out_in(b, in_us);
	build_tell(b);
}

static void on_failed_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	struct build *b = arg;

	(void)s;
	(void)err;
	if (!job_is_given_up(b))
		pause_job(b);
}

void job_try_again(struct build *b, const struct err *err)
{
	struct sandbox *s = job_sandbox(b);

	exec_watch_remove(&b->watch);
	build_say(b, err->message);
	log_info("build.retried", "id=%s name=%s why='%s'", b->id, build_name(b), err->message);
	b->retries--;
	b->tries++;
	b->error = *err;
	build_emit(b, EVENT_BUILD_RETRIED);
	b->error = (struct err){0};
	b->step = STEP_STATE;
	b->image = (struct digest){0};
	b->suite[0] = '\0';
	part_restart(b);
	b->attempts = 0;
	b->n_known = 0;
	b->sandbox_id[0] = b->exec_id[0] = '\0'; /* a gateway that dies now finds a stray */
	job_new_report(b);
	b->phase = PHASE_DELETING;
	job_note(b);
	if (s)
		sandbox_delete(s, END_DELETED, on_failed_deleted, b);
	else
		on_failed_deleted(NULL, NULL, b);
}
