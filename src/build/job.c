// SPDX-License-Identifier: Apache-2.0
/*
 * Moves a build from step to step. One thing is under way at a time (enum phase), and each ends in
 * a call from the loop:
 *
 *	begin step --> in the cache? ------------------------------------------> next step
 *	     | no
 *	     +--> create a sandbox --> run the script --> seal --> delete the sandbox --> next step
 *
 * Every failure, and a cancel, goes to end_job(), which deletes the sandbox before anybody is told.
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
#include "build/plan.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "build/bases.h"
#include "build/caches.h"
#include "build/carry.h"
#include "build/fill.h"
#include "build/part.h"
#include "net/match/url.h"
#include "sandbox/network/network.h"
#include "sandbox/storage/image.h"
#include "sandbox/storage/template.h"

#include <string.h>

#define ATTEMPTS_MAX 5
#define RETRY_US                                                                                   \
	(UINT64_C(5) * 1000 * 1000) /* before the second try; thrice as long before each other */
#define TURN_US SECOND_US           /* until one looks again whether there is room for a pull */
#define STEP_MS (UINT64_C(45) * 60 * 1000) /* a sandbox's whole life */

static void begin_step(struct build *b);
static void set_out(struct build *b);
static void end_job(struct build *b, const struct err *err);

static struct sandbox *find_sandbox(const struct build *b)
{
	return b->sandbox_id[0] ? sandbox_find(b->owner->config.fleet, BUILD_PROJECT, b->sandbox_id)
	                        : NULL;
}

/* Writes the row; if that fails, the next change writes it. */
static void note(const struct build *b)
{
	struct err err;

	if (build_save(b, &err) < 0)
		log_warn("build.not_saved", "id=%s why='%s'", b->id, err.message);
}

/* A line of the step's script. */
static void put_line(const char *line, size_t len, void *arg)
{
	struct build *b = arg;

	if (b->n_known > 0)
		b->n_known--;
	else
		build_say_line(b, line, len);
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
	note(b);
	build_emit(b, EVENT_BUILD_ENDED);
	builds_on_ended(b);
}

static void on_end_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	finish(arg);
}

/* err NULL: it was cancelled. */
static void end_job(struct build *b, const struct err *err)
{
	struct sandbox *s = find_sandbox(b);

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

static bool is_given_up(struct build *b)
{
	if (b->is_cancelled)
		end_job(b, NULL);
	return b->is_cancelled;
}

static void name_it(struct build *b)
{
	struct err err = {0};

	if (publish_build(b, &err) < 0)
		end_job(b, &err);
	else
		finish(b);
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
	report_done(&b->report);
	report_init(&b->report, put_line, b);
	note(b);
	begin_step(b);
}

static void on_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	struct build *b = arg;

	(void)s;
	(void)err;
	b->sandbox_id[0] = b->exec_id[0] = '\0';
	if (!is_given_up(b))
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

/* Deletes the step's sandbox, unless the next step uses it too. */
static void leave_step(struct build *b)
{
	struct sandbox *s = find_sandbox(b);

	b->exec_id[0] = '\0';
	if (!s || shares_sandbox(b)) {
		next_step(b);
		return;
	}
	b->phase = PHASE_DELETING;
	sandbox_delete(s, END_DELETED, on_deleted, b);
}

/* Keeps the step's report for builds that find it in the cache later. */
static void keep_report(struct build *b, const json_t *report)
{
	json_t *packages = json_object_get(report, "packages");
	json_t *languages = json_object_get(report, "languages");

	if (!json_is_array(packages) || !json_is_object(languages))
		return;
	json_decref(b->packages);
	json_decref(b->languages);
	b->packages = json_incref(packages);
	b->languages = json_incref(languages);
}

/* The step is complete: puts it into the cache. */
static void remember(struct build *b, const struct digest *image, uint64_t bytes)
{
	auto_json json_t *report = plan_is_last(b, b->step)
	                                   ? json_pack("{sOsO}", "packages", b->report.packages,
	                                               "languages", b->report.languages)
	                                   : json_object();
	char key[PLAN_KEY_SIZE];

	plan_key(b, b->step, key);
	cache_put(b->owner, key, image, bytes, report);
	keep_report(b, report);
}

static void on_sealed(const struct digest *image, uint64_t bytes, const struct err *err, void *arg)
{
	struct build *b = arg;

	b->seal = NULL;
	if (err) {
		end_job(b, err);
		return;
	}
	remember(b, image, bytes);
	b->image = *image;
	if (!is_given_up(b))
		leave_step(b);
}

static void on_seal_progress(uint64_t bytes, void *arg)
{
	(void)bytes; /* readers ask the seal itself */
	build_tell(arg);
}

static void seal(struct build *b)
{
	struct sandbox *s = find_sandbox(b);
	const struct image_spec spec = {.is_tree = plan_is_on_host(b, b->step),
	                                .is_whole = b->step == STEP_PART && !part_is_last(b),
	                                .epoch_s = b->archive_date,
	                                .progress = on_seal_progress};
	struct err err = {0};

	b->phase = PHASE_SEALING;
	build_tell(b);
	if (!s)
		(void)err_set(&err, ERR_GONE, 0, "the build's sandbox has ended");
	else if (image_seal(s, &spec, on_sealed, b, &b->seal, &err) == 0)
		return;
	end_job(b, &err);
}

/* Keeps what a step has found out for other builds. */
static void learn(struct build *b)
{
	const struct registries *told = &b->report.registries;
	struct registries *learnt = &b->owner->learnt;
	struct url url;
	const char *why;

	if (url_parse(told->npm, strlen(told->npm), &url, &why) == 0)
		memcpy(learnt->npm, told->npm, sizeof(learnt->npm));
	if (url_parse(told->pip, strlen(told->pip), &url, &why) == 0) {
		memcpy(learnt->pip, told->pip, sizeof(learnt->pip));
		memcpy(learnt->pip_files, told->pip_files, sizeof(learnt->pip_files));
	}
}

static void on_carried(struct build *b, const struct err *err)
{
	if (err)
		end_job(b, err);
	else
		leave_step(b);
}

static void on_success(struct build *b)
{
	if (b->step == STEP_STATE) {
		if (!b->report.state[0]) {
			struct err err;

			(void)err_set(&err, ERR_GUEST, 0,
			              "the build's sandbox did not report the state of the package "
			              "archives");
			end_job(b, &err);
			return;
		}
		(void)snprintf(b->archive_state, sizeof(b->archive_state), "%s", b->report.state);
		b->archive_date = b->report.date;
	}
	if (b->step == STEP_CONTEXT) {
		json_decref(b->contents);
		b->contents = json_incref(b->report.contents);
	}
	if (b->step == STEP_REGISTRIES)
		learn(b);
	if (b->step == STEP_CARRY) {
		b->phase = PHASE_CARRYING;
		carry_begin(b, on_carried);
		return;
	}
	if (plan_is_sealed(b->step)) {
		seal(b);
		return;
	}
	if (b->step == STEP_CHECKS)
		remember(b, &b->image, 0);
	leave_step(b);
}

static void on_retry(struct loop *loop, void *arg)
{
	struct build *b = arg;

	(void)loop;
	b->phase = PHASE_NONE;
	set_out(b);
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
	if (!b->retry)
		b->retry = loop_timer_new(b->owner->config.loop, on_retry, b);
	loop_timer_set_in(b->retry, in_us);
	build_tell(b);
}

static void on_failed_deleted(struct sandbox *s, const struct err *err, void *arg)
{
	struct build *b = arg;

	(void)s;
	(void)err;
	if (!is_given_up(b))
		pause_job(b);
}

/* Starts from the first step, with the archive's state of then; complete steps are in the cache. */
static void try_again(struct build *b, const struct err *err)
{
	struct sandbox *s = find_sandbox(b);

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
	report_done(&b->report);
	report_init(&b->report, put_line, b);
	b->phase = PHASE_DELETING;
	note(b);
	if (s)
		sandbox_delete(s, END_DELETED, on_failed_deleted, b);
	else
		on_failed_deleted(NULL, NULL, b);
}

/* A build's sandbox trusts no issuer of the wall, since that would get into its template. So what
 * was denied is told here, and not by a reply inside. */
static void add_denied(struct err *err, const char *denied)
{
	static const char words[] = "; blocked by the network policy of builds: ";
	const size_t most = sizeof(err->message) - sizeof(words) - strlen(denied);
	const size_t len = MIN(strlen(err->message), most); /* a name has up to 253 bytes */

	(void)snprintf(err->message + len, sizeof(err->message) - len, "%s%s", words, denied);
	(void)err_hint(err, "a build reaches its archives, and by npm, pip and commands all public "
	                    "hosts; one with a private address has to be in templates.names of the "
	                    "daemon's settings");
}

static void on_failure(struct build *b, const char *why)
{
	const char *said = b->report.error[0] ? b->report.error : b->report.last;
	const struct sandbox *s = find_sandbox(b);
	const char *denied = s ? network_denied(s) : NULL;
	struct err err;

	if (why || !said[0])
		said = why ? why : "its script failed";
	if (plan_is_on_host(b, b->step) && !part_is_any(b))
		(void)err_set(&err, ERR_UNAVAILABLE, 0, "%s: %s", step_name(b->step), said);
	else if (build_is_set(b))
		(void)err_field(&err, "packages", "%s", said);
	else
		(void)err_set(&err, ERR_INVALID_FIELD, 0, "%s: %s", step_name(b->step), said);
	(void)err_hint(&err, "all that it printed: cloche template log %s", b->id);
	if (denied)
		add_denied(&err, denied);
	if (b->retries > 0)
		try_again(b, &err);
	else
		end_job(b, &err);
}

static void read_output(struct build *b, struct exec *e)
{
	struct spool_event ev;
	struct err err;

	while (spool_next(exec_spool(e), b->read_seq, &ev, &err) > 0) {
		b->read_seq = ev.seq;
		if (ev.kind == SPOOL_STDOUT || ev.kind == SPOOL_STDERR)
			report_feed(&b->report, ev.data, ev.len);
	}
	build_tell(b);
}

static void on_exec(struct exec *e, void *arg)
{
	struct build *b = arg;
	int code;

	if (!e) {
		on_failure(b, "its sandbox has ended");
		return;
	}
	read_output(b, e);
	if (!exec_is_over(e))
		return;
	exec_watch_remove(&b->watch);
	report_end(&b->report);
	code = exec_exit_code(e);
	if (code == 0)
		on_success(b);
	else
		on_failure(b, exec_state(e) == EXEC_FAILED ? exec_failure(e)->message
		              : code < 0                   ? exec_why(e)
		                                           : NULL);
}

static void follow(struct build *b, struct exec *e)
{
	b->phase = PHASE_RUNNING;
	b->read_seq = 0;
	b->watch = (struct exec_watch){.fn = on_exec, .arg = b};
	exec_watch_add(e, &b->watch);
	on_exec(e, b);
}

static void run_script(struct build *b, struct sandbox *s)
{
	auto_json json_t *argv = plan_argv(b, b->step);
	auto_json json_t *env = plan_env(b, b->step);
	const struct exec_spec spec = {
		.argv = argv, .env = env, .user = plan_user(b, b->step), .cwd = "/"};
	struct exec *e;
	struct err err = {0};

	if (b->step == STEP_PART)
		caches_put_env(b, env);
	if (exec_start(s, &spec, &e, &err) < 0) {
		end_job(b, &err);
		return;
	}
	(void)snprintf(b->exec_id, sizeof(b->exec_id), "%s", exec_id(e));
	b->log_seq = spool_last_seq(build_log(b));
	note(b);
	follow(b, e);
}

static void on_filled(struct build *b, const struct err *err)
{
	struct sandbox *s = find_sandbox(b);
	struct err gone;

	if (!err && !s) {
		(void)err_set(&gone, ERR_GONE, 0, "the build's sandbox has ended");
		err = &gone;
	}
	if (err)
		end_job(b, err);
	else
		run_script(b, s);
}

static void enter_step(struct build *b, struct sandbox *s)
{
	if (!fill_is_due(b)) {
		run_script(b, s);
		return;
	}
	b->phase = PHASE_FILLING;
	fill_begin(b, on_filled);
}

static void on_created(struct sandbox *s, const struct err *err, void *arg)
{
	struct build *b = arg;

	if (err) {
		end_job(b, err);
		return;
	}
	(void)snprintf(b->sandbox_id, sizeof(b->sandbox_id), "%s", sandbox_id(s));
	if (!is_given_up(b))
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
		end_job(b, &err);
}

static void on_unlocked(struct loop *loop, void *arg);

static void on_caches(struct build *b, bool is_ours)
{
	if (is_given_up(b))
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
	keep_report(b, report);
	return true;
}

static void skip_step(struct build *b, const char *why)
{
	auto_free char *text = xasprintf("== %s: %s", step_name(b->step), why);

	build_say(b, text);
	leave_step(b);
}

static void begin_step(struct build *b)
{
	struct sandbox *s = find_sandbox(b);
	auto_free char *text = NULL;

	if (is_given_up(b))
		return;
	while (b->step < STEP_COUNT && !plan_has(b, b->step))
		b->step++;
	if (b->step == STEP_COUNT) {
		name_it(b);
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
	note(b);
	if (s && sandbox_state(s) == SANDBOX_RUNNING)
		run_script(b, s);
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
	if (!b->retry)
		b->retry = loop_timer_new(b->owner->config.loop, on_retry, b);
	loop_timer_set_in(b->retry, TURN_US);
}

static void set_out(struct build *b)
{
	struct err err = {0};
	int r = start_find(b, &err);

	if (r < 0) {
		end_job(b, &err);
	} else if (r > 0) {
		if (bases_are_due(b))
			wait_for_base(b);
		else if (b->phase != PHASE_WAITING)
			build_say(b, "== waiting for the template that this one starts from");
		b->phase = PHASE_WAITING;
		note(b);
	} else {
		b->phase = PHASE_NONE;
		begin_step(b);
	}
}

void job_begin(struct build *b)
{
	b->state = BUILD_RUNNING;
	b->started_us = b->seen_us = clock_wall_us();
	b->step = STEP_STATE;
	report_init(&b->report, put_line, b);
	note(b);
	build_emit(b, EVENT_BUILD_STARTED);
	build_tell(b);
	set_out(b);
}

void job_on_template(struct build *b)
{
	set_out(b);
}

void job_on_base(struct build *b, const struct err *err)
{
	if (err)
		end_job(b, err);
	else
		set_out(b);
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
	struct sandbox *s = find_sandbox(b);
	struct exec *e = s && b->exec_id[0] ? exec_find(s, b->exec_id) : NULL;
	struct err err;

	report_init(&b->report, put_line, b);
	if (bases_are_due(b) || (!b->suite[0] && digest_is_zero(&b->image) && !part_is_any(b))) {
		set_out(b);
	} else if (b->attempts > ATTEMPTS_MAX) {
		(void)err_set(&err, ERR_INTERNAL, 0,
		              "the daemon was restarted %d times in one step", ATTEMPTS_MAX);
		end_job(b, &err);
	} else if (e && sandbox_state(s) == SANDBOX_RUNNING) {
		b->attempts++;
		b->n_known = MAX(spool_last_seq(build_log(b)), b->log_seq) - b->log_seq;
		follow(b, e);
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
		end_job(b, NULL);
		break;
	case PHASE_SEALING:
		image_seal_cancel(b->seal);
		note(b);
		break;
	case PHASE_LOCKED:
		if (b->on_caches) /* it looks */
			note(b);
		else
			end_job(b, NULL);
		break;
	case PHASE_CREATING: /* each of these ends, and then looks */
	case PHASE_DELETING:
		note(b);
		break;
	}
}
