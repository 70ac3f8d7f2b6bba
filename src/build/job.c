// SPDX-License-Identifier: Apache-2.0
/*
 * Moves a build from step to step. One thing is under way at a time (enum phase), and each ends in
 * a call from the loop:
 *
 *	begin step --> in the cache? ------------------------------------------> next step
 *	     | no
 *	     +--> create a sandbox --> run the script --> seal --> delete the sandbox --> next step
 *
 * Every failure, and a cancel, goes to job_end(), which first deletes the sandbox and then reports.
 * So a failed build leaves nothing but complete steps in the cache.
 *
 * The row is written before anything that outlives the gateway is made. The next gateway finds the
 * sandbox and the exec by their ids, reads the output from its beginning, and logs what is not in
 * the log yet. If one of them is missing, the step starts again. A step during which the gateway
 * dies repeatedly is given up after some attempts.
 *
 * A build that may be retried forgets its position, pauses and starts again, so that temporary
 * problems (an archive that was being updated, a network that was down) have passed.
 */
#include "build/job.h"

#include "base/clock.h"
#include "base/units.h"
#include "build/bases.h"
#include "build/caches.h"
#include "build/fill.h"
#include "build/part.h"
#include "build/plan.h"
#include "sandbox/storage/image.h"
#include "sandbox/storage/template.h"

#define ATTEMPTS_MAX 5
#define TURN_US      SECOND_US /* until one looks again whether there is room for a pull */
#define STEP_MS      (UINT64_C(45) * 60 * 1000) /* a sandbox's whole life */

static void begin_step(struct build *b);

struct sandbox *job_sandbox(const struct build *b)
{
	return b->sandbox_id[0] ? sandbox_find(b->owner->config.fleet, BUILD_PROJECT, b->sandbox_id)
	                        : NULL;
}

static void next_step(struct build *b)
{
	if (b->step == STEP_CARRY)
		b->carried++;
	else if (b->step == STEP_PART && part_leave(b))
		b->step = STEP_CARRY;
	else
		b->step++;
	b->attempts = 0;
	b->n_known = 0;
	job_new_report(b);
	job_note(b);
	begin_step(b);
}

static void on_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	struct build *b = arg;

	(void)s;
	(void)err;
	b->sandbox_id[0] = b->exec_id[0] = '\0';
	if (!job_is_given_up(b))
		next_step(b);
}

/* Whether the next step uses the same sandbox: both run on `host`, and neither is sealed. */
static bool shares_sandbox(const struct build *b)
{
	enum step next = b->step + 1;

	while (next < STEP_COUNT && !plan_has(b, next))
		next++;
	return !part_is_any(b) && !plan_is_sealed(b->step) && plan_is_on_host(b, b->step) &&
	       next < STEP_COUNT && plan_is_on_host(b, next);
}

void job_leave_step(struct build *b)
{
	struct sandbox *s = job_sandbox(b);

	b->exec_id[0] = '\0';
	if (!s || shares_sandbox(b)) {
		next_step(b);
		return;
	}
	b->phase = PHASE_DELETING;
	sandbox_delete(s, END_DELETED, on_deleted, b);
}

static void on_filled(struct build *b, const struct err *err)
{
	struct sandbox *s = job_sandbox(b);
	struct err gone;

	if (!err && !s) {
		(void)err_set(&gone, ERR_GONE, 0, "the build's sandbox has ended");
		err = &gone;
	}
	if (err)
		job_end(b, err);
	else
		job_run_script(b, s);
}

static void enter_step(struct build *b, struct sandbox *s)
{
	if (!fill_is_due(b)) {
		job_run_script(b, s);
		return;
	}
	b->phase = PHASE_FILLING;
	fill_begin(b, on_filled);
}

static void on_created(struct sandbox *s, const struct err *err, void *arg)
{
	struct build *b = arg;

	if (err) {
		job_end(b, err);
		return;
	}
	(void)snprintf(b->sandbox_id, sizeof(b->sandbox_id), "%s", sandbox_id(s));
	if (!job_is_given_up(b))
		enter_step(b, s);
}

static void create_sandbox(struct build *b)
{
	const struct fleet_config *c = fleet_config(b->owner->config.fleet);
	auto_json json_t *network = plan_network(b, b->step);
	struct part_carry carry;
	const bool is_shown = b->step == STEP_CARRY && part_carry(b, b->carried, &carry);
	const bool is_host = plan_is_on_host(b, b->step) && !is_shown;
	struct sandbox_spec spec = {
		.is_own = true,
		.is_shown = is_shown,
		.template = is_host ? TEMPLATE_HOST : NULL,
		.image = is_host    ? NULL
	                 : is_shown ? &carry.image
	                            : &b->image,
		.shown_volume = b->step == STEP_PART && b->cache_volume[0] ? b->cache_volume : NULL,
		.shown_volume_path = CACHES_DIR,
		.network = network,
		.limits = {.memory_bytes = MIN(2048 * MIB, c->max_limits.memory_bytes),
	                   .disk_bytes = MIN(16384 * MIB, c->max_limits.disk_bytes),
	                   .inodes = MIN(UINT64_C(1000000), c->max_limits.inodes),
	                   .cpu_milli = c->max_limits.cpu_milli,
	                   .pids = MIN(1024U, c->max_limits.pids)},
		.timeout_ms = MIN(STEP_MS, c->max_timeout_ms),
	};
	struct err err = {0};

	b->phase = PHASE_CREATING;
	if (sandbox_create(b->owner->config.fleet, BUILD_PROJECT, &spec, on_created, b, &err) < 0)
		job_end(b, &err);
}

static void on_unlocked(struct loop *loop, void *arg);

static void on_caches(struct build *b, bool is_ours)
{
	if (job_is_given_up(b))
		return;
	if (is_ours) {
		create_sandbox(b);
		return;
	}
	if (b->phase != PHASE_LOCKED)
		build_say(b, "waits for another build to leave a cache");
	b->phase = PHASE_LOCKED;
	if (!b->unlock)
		b->unlock = loop_timer_new(b->owner->config.loop, on_unlocked, b);
	loop_timer_set_in(b->unlock, TURN_US);
}

static void look_for_caches(struct build *b)
{
	if (b->phase != PHASE_LOCKED)
		b->phase = PHASE_CREATING;
	caches_begin(b, on_caches);
}

static void on_unlocked(struct loop *loop, void *arg)
{
	struct build *b = arg;

	(void)loop;
	look_for_caches(b);
}

/* Nothing has to be carried for a part that is there. */
static bool is_cached(struct build *b)
{
	const enum step step = b->step == STEP_CARRY ? STEP_PART : b->step;
	const json_t *report;
	char key[PLAN_KEY_SIZE];

	if (b->is_fresh || b->step == STEP_STATE || b->step == STEP_REGISTRIES ||
	    b->step == STEP_CONTEXT || (step == STEP_PART && part_is_unknown(b)))
		return false;
	plan_key(b, step, key);
	if (!cache_find(b->owner, key, &b->image, &report))
		return false;
	b->step = step;
	job_keep_report(b, report);
	return true;
}

static void skip_step(struct build *b, const char *why)
{
	auto_free char *text = xasprintf("== %s: %s", step_name(b->step), why);

	build_say(b, text);
	job_leave_step(b);
}

static void begin_step(struct build *b)
{
	struct sandbox *s = job_sandbox(b);
	auto_free char *text = NULL;

	if (job_is_given_up(b))
		return;
	while (b->step < STEP_COUNT && !plan_has(b, b->step))
		b->step++;
	if (b->step == STEP_COUNT) {
		job_publish(b);
		return;
	}
	if (b->step == STEP_CARRY || b->step == STEP_PART)
		part_enter(b);
	if (is_cached(b)) {
		skip_step(b, "as it was made before");
		return;
	}
	b->is_cached = b->is_cached && !plan_is_sealed(b->step);
	text = xasprintf("== %s", step_name(b->step));
	build_say(b, text);
	b->attempts++;
	job_note(b);
	if (s && sandbox_state(s) == SANDBOX_RUNNING)
		job_run_script(b, s);
	else if (b->step == STEP_PART)
		look_for_caches(b);
	else
		create_sandbox(b);
}

/* Told when it is here, or looked for again if its pull could not begin. */
static void wait_for_base(struct build *b)
{
	if (b->pulling)
		return;
	job_set_out_in(b, TURN_US);
}

void job_set_out(struct build *b)
{
	struct err err = {0};
	int r = start_find(b, &err);

	if (r < 0) {
		job_end(b, &err);
	} else if (r > 0) {
		if (bases_are_due(b))
			wait_for_base(b);
		else if (b->phase != PHASE_WAITING)
			build_say(b, "== waiting for the template that this one starts from");
		b->phase = PHASE_WAITING;
		job_note(b);
	} else {
		b->phase = PHASE_NONE;
		begin_step(b);
	}
}

static void on_retry(struct loop *loop, void *arg)
{
	struct build *b = arg;

	(void)loop;
	b->phase = PHASE_NONE;
	job_set_out(b);
}

void job_set_out_in(struct build *b, uint64_t in_us)
{
	if (!b->retry)
		b->retry = loop_timer_new(b->owner->config.loop, on_retry, b);
	loop_timer_set_in(b->retry, in_us);
}

void job_begin(struct build *b)
{
	b->state = BUILD_RUNNING;
	b->started_us = b->seen_us = clock_wall_us();
	b->step = STEP_STATE;
	job_new_report(b);
	job_note(b);
	build_emit(b, EVENT_BUILD_STARTED);
	build_tell(b);
	job_set_out(b);
}

void job_on_template(struct build *b)
{
	job_set_out(b);
}

void job_on_base(struct build *b, const struct err *err)
{
	if (err)
		job_end(b, err);
	else
		job_set_out(b);
}

static void on_stray_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	struct build *b = arg;

	(void)s;
	(void)err;
	b->sandbox_id[0] = b->exec_id[0] = '\0';
	begin_step(b);
}

/* Finds its sandbox and exec again, or starts the step again. */
void job_rejoin(struct build *b)
{
	struct sandbox *s = job_sandbox(b);
	struct exec *e = s && b->exec_id[0] ? exec_find(s, b->exec_id) : NULL;
	struct err err;

	job_new_report(b);
	if (bases_are_due(b) || (!b->suite[0] && digest_is_zero(&b->image) && !part_is_any(b))) {
		job_set_out(b);
	} else if (b->attempts > ATTEMPTS_MAX) {
		(void)err_set(&err, ERR_INTERNAL, 0,
		              "the daemon was restarted %d times in one step", ATTEMPTS_MAX);
		job_end(b, &err);
	} else if (e && sandbox_state(s) == SANDBOX_RUNNING) {
		b->attempts++;
		b->n_known = MAX(spool_last_seq(build_log(b)), b->log_seq) - b->log_seq;
		job_follow(b, e);
	} else if (s) {
		b->phase = PHASE_DELETING;
		sandbox_delete(s, END_DELETED, on_stray_deleted, b);
	} else {
		begin_step(b);
	}
}

void job_cancel(struct build *b)
{
	b->is_cancelled = true;
	switch (b->state == BUILD_QUEUED ? PHASE_NONE : b->phase) {
	case PHASE_NONE:
	case PHASE_WAITING:
	case PHASE_FILLING:
	case PHASE_RUNNING:
	case PHASE_CARRYING:
	case PHASE_PAUSING:
		job_end(b, NULL);
		break;
	case PHASE_SEALING:
		image_seal_cancel(b->seal);
		job_note(b);
		break;
	case PHASE_LOCKED:
		if (b->on_caches) /* it looks */
			job_note(b);
		else
			job_end(b, NULL);
		break;
	case PHASE_CREATING: /* each of these ends, and then looks */
	case PHASE_DELETING:
		job_note(b);
		break;
	}
}
