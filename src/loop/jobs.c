// SPDX-License-Identifier: Apache-2.0
/*
 * A job is work over many items, done in slices so that no turn is long. Active jobs are in a list:
 * each turn runs them from its front while there is time, and one that is not done goes to its end.
 */
#include "base/clock.h"
#include "loop/loop_private.h"

struct loop_job *loop_job_new_named(struct loop *loop, loop_job_fn fn, void *arg, const char *name)
{
	struct loop_job *job = xnew0(struct loop_job);

	*job = (struct loop_job){.loop = loop, .name = name, .fn = fn, .arg = arg};
	list_init(&job->link);
	return job;
}

void loop_job_start(struct loop_job *job)
{
	if (!loop_job_is_running(job))
		list_append(&job->loop->jobs, &job->link);
}

bool loop_job_is_running(const struct loop_job *job)
{
	return !list_empty(&job->link);
}

void loop_job_free(struct loop_job *job)
{
	if (!job)
		return;
	if (job->loop->running == job)
		job->loop->running = NULL;
	list_remove(&job->link);
	free(job);
}

bool loop_has_time(const struct loop *loop)
{
	return clock_steady_us() < loop->slice_end_us;
}

/* Runs each active job once, or as many as there is time for; the next turn goes on behind them. */
void jobs_run(struct loop *loop)
{
	struct loop_job *last =
		list_empty(&loop->jobs) ? NULL : list_entry(loop->jobs.prev, struct loop_job, link);
	struct loop_job *job;
	bool is_last = false;

	loop->slice_end_us = clock_steady_us() + SLICE_US;
	while (!is_last && (job = list_first(&loop->jobs, struct loop_job, link))) {
		const char *name = job->name;

		is_last = job == last || !loop_has_time(loop);
		list_remove(&job->link);
		loop->running = job;
		if (!job->fn(loop, job->arg) && loop->running)
			loop_job_start(job);
		loop->running = NULL;
		turn_lap(loop, name);
	}
}
