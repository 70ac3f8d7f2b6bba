// SPDX-License-Identifier: Apache-2.0
/*
 * Runs the script of a step in its sandbox, and judges how it ended: its files are sealed as an
 * image and kept in the cache, a parcel is taken out of it, or the build has failed.
 */
#include "build/job.h"

#include "base/units.h"
#include "build/caches.h"
#include "build/carry.h"
#include "build/part.h"
#include "build/plan.h"
#include "net/match/url.h"
#include "sandbox/network/network.h"
#include "sandbox/storage/image.h"

#include <string.h>

/* A line of the step's script. */
static void put_line(const char *line, size_t len, void *arg)
{
	struct build *b = arg;

	if (b->n_known > 0)
		b->n_known--;
	else
		build_say_line(b, line, len);
}

void job_new_report(struct build *b)
{
	report_done(&b->report);
	report_init(&b->report, put_line, b);
}

void job_keep_report(struct build *b, const json_t *report)
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
	job_keep_report(b, report);
}

static void on_sealed(const struct digest *image, uint64_t bytes, const struct err *err, void *arg)
{
	struct build *b = arg;

	b->seal = NULL;
	if (err) {
		job_end(b, err);
		return;
	}
	remember(b, image, bytes);
	b->image = *image;
	if (!job_is_given_up(b))
		job_leave_step(b);
}

static void on_seal_progress(uint64_t bytes, void *arg)
{
	(void)bytes; /* readers ask the seal itself */
	build_tell(arg);
}

static void seal(struct build *b)
{
	struct sandbox *s = job_sandbox(b);
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
	job_end(b, &err);
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
		job_end(b, err);
	else
		job_leave_step(b);
}

static void on_success(struct build *b)
{
	if (b->step == STEP_STATE) {
		if (!b->report.state[0]) {
			struct err err;

			(void)err_set(&err, ERR_GUEST, 0,
			              "the build's sandbox did not report the state of the package "
			              "archives");
			job_end(b, &err);
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
	job_leave_step(b);
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
	const struct sandbox *s = job_sandbox(b);
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
		job_try_again(b, &err);
	else
		job_end(b, &err);
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

void job_follow(struct build *b, struct exec *e)
{
	b->phase = PHASE_RUNNING;
	b->read_seq = 0;
	b->watch = (struct exec_watch){.fn = on_exec, .arg = b};
	exec_watch_add(e, &b->watch);
	on_exec(e, b);
}

void job_run_script(struct build *b, struct sandbox *s)
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
		job_end(b, &err);
		return;
	}
	(void)snprintf(b->exec_id, sizeof(b->exec_id), "%s", exec_id(e));
	b->log_seq = spool_last_seq(build_log(b));
	job_note(b);
	job_follow(b, e);
}
