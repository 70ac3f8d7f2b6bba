// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: all files are read before anything runs, so that a mistake costs nothing.
 * Each run of each case is a task; lanes, which are threads with a connection of their own, take
 * them in order. The main thread waits, prints each case as soon as all before it are printed, and
 * heeds Ctrl-C: then no task begins, and the sandboxes of those that run are removed under them.
 */
#include "base/clock.h"
#include "cli/eval/eval_chat.h"
#include "cli/eval/eval_file.h"
#include "cli/eval/eval_report.h"
#include "cli/frame/command.h"
#include "cli/session/fresh.h"
#include "cli/session/packages.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define JOBS_DEFAULT 4
#define JOBS_MAX     64
#define LOOK_NS      100000000 /* how often the main thread looks for a signal */
#define EXIT_FAILED  1

struct eval_opts {
	uint64_t jobs, repeat;
	double threshold;
	const char *base_url, *model, *junit;
	struct opt_list cases;
	bool keep, is_standalone;
};

struct task {
	const struct eval_row *row;
	struct eval_result *result;
	bool is_done;
};

struct lane {
	struct eval_lane base;
	struct eval *eval;
	pthread_t thread;
	char *sandbox; /* that runs now, or NULL */
};

struct eval {
	struct eval_suite **suites;
	size_t n_suites;
	struct eval_row *rows;
	size_t n_rows;
	struct task *tasks;
	size_t n_tasks;
	struct lane *lanes;
	size_t n_lanes;
	pthread_mutex_t lock; /* of what follows, tasks' is_done and lanes' sandbox */
	pthread_cond_t changed;
	size_t next, n_done;
	bool is_stopped;
};

static void eval_done(struct eval *e)
{
	for (size_t i = 0; i < e->n_rows; i++) {
		for (uint64_t n = 0; n < e->rows[i].c->settings.repeat; n++)
			eval_result_done(&e->rows[i].results[n]);
		free(e->rows[i].results);
	}
	for (size_t i = 0; i < e->n_suites; i++)
		eval_suite_free(e->suites[i]);
	free(e->suites);
	free(e->rows);
	free(e->tasks);
	free(e->lanes);
}

static int read_suites(struct eval *e, const struct command *c, struct err *err)
{
	const struct eval_opts *opts = c->arg;
	const struct eval_overrides instead = {.base_url = opts->base_url,
	                                       .model = opts->model,
	                                       .repeat = opts->repeat,
	                                       .threshold = opts->threshold};

	e->suites = xnew0n(struct eval_suite *, c->n_words);
	for (size_t i = 0; i < c->n_words; i++) {
		json_t *tree = NULL;
		int r = eval_file_read(c->words[i], &tree, err);

		if (r == 0)
			r = eval_suite_new(c->words[i], tree, &instead, &e->suites[i], err);
		if (r < 0)
			return r;
		e->n_suites++;
	}
	return 0;
}

static bool is_wanted(const struct eval_opts *opts, const char *name)
{
	for (size_t i = 0; i < opts->cases.n; i++)
		if (strcmp(opts->cases.items[i], name) == 0)
			return true;
	return opts->cases.n == 0;
}

static void add_row(struct eval *e, const struct eval_suite *suite, const struct eval_case *c)
{
	e->rows = xrealloc(e->rows, (e->n_rows + 1) * sizeof(*e->rows));
	e->rows[e->n_rows++] = (struct eval_row){
		.suite = suite, .c = c, .results = xnew0n(struct eval_result, c->settings.repeat)};
	e->n_tasks += c->settings.repeat;
}

static int make_tasks(struct eval *e, const struct eval_opts *opts, struct err *err)
{
	struct task *task;

	for (size_t i = 0; i < e->n_suites; i++)
		for (size_t n = 0; n < e->suites[i]->n_cases; n++)
			if (is_wanted(opts, e->suites[i]->cases[n].name))
				add_row(e, e->suites[i], &e->suites[i]->cases[n]);
	if (e->n_rows == 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "--case: no file has a case '%s'",
		               opts->cases.items[0]);
	task = e->tasks = xnew0n(struct task, e->n_tasks);
	for (size_t i = 0; i < e->n_rows; i++)
		for (uint64_t n = 0; n < e->rows[i].c->settings.repeat; n++)
			*task++ = (struct task){&e->rows[i], &e->rows[i].results[n], false};
	return 0;
}

static struct lane *lane_of(struct eval_lane *base)
{
	return container_of(base, struct lane, base);
}

static void lane_has_sandbox(struct eval_lane *base, const char *id)
{
	struct lane *lane = lane_of(base);

	(void)pthread_mutex_lock(&lane->eval->lock);
	free(lane->sandbox);
	lane->sandbox = id ? xstrdup(id) : NULL;
	(void)pthread_mutex_unlock(&lane->eval->lock);
}

static bool lane_is_stopped(struct eval_lane *base)
{
	struct eval *e = lane_of(base)->eval;
	bool is_stopped;

	(void)pthread_mutex_lock(&e->lock);
	is_stopped = e->is_stopped;
	(void)pthread_mutex_unlock(&e->lock);
	return is_stopped;
}

static void *lane_main(void *arg)
{
	struct lane *lane = arg;
	struct eval *e = lane->eval;

	(void)pthread_mutex_lock(&e->lock);
	while (!e->is_stopped && e->next < e->n_tasks) {
		struct task *task = &e->tasks[e->next++];

		(void)pthread_mutex_unlock(&e->lock);
		eval_run(&lane->base, task->row->suite, task->row->c, task->result);
		(void)pthread_mutex_lock(&e->lock);
		task->is_done = true;
		e->n_done++;
		(void)pthread_cond_signal(&e->changed);
	}
	(void)pthread_mutex_unlock(&e->lock);
	return NULL;
}

static int start_lanes(struct eval *e, struct command *c, struct err *err)
{
	const struct eval_opts *opts = c->arg;
	size_t jobs = MIN(opts->jobs ? opts->jobs : JOBS_DEFAULT, e->n_tasks);

	e->lanes = xnew0n(struct lane, jobs);
	for (; e->n_lanes < jobs; e->n_lanes++) {
		struct lane *lane = &e->lanes[e->n_lanes];
		int r;

		lane->eval = e;
		lane->base.keeps = opts->keep;
		lane->base.has_sandbox = lane_has_sandbox;
		lane->base.is_stopped = lane_is_stopped;
		r = remote_open_again(c->remote, &lane->base.remote, err);
		if (r < 0)
			return r;
		r = pthread_create(&lane->thread, NULL, lane_main, lane);
		if (r != 0) {
			remote_close(lane->base.remote);
			return err_set(err, ERR_INTERNAL, r, "cannot start a thread");
		}
	}
	return 0;
}

static void stop_lanes(struct eval *e, const struct remote *remote)
{
	e->is_stopped = true;
	for (size_t i = 0; i < e->n_lanes; i++)
		if (e->lanes[i].sandbox)
			fresh_remove(remote, e->lanes[i].sandbox);
}

static void end_lanes(struct eval *e)
{
	for (size_t i = 0; i < e->n_lanes; i++) {
		(void)pthread_join(e->lanes[i].thread, NULL);
		remote_close(e->lanes[i].base.remote);
		free(e->lanes[i].sandbox);
	}
}

static bool is_row_done(const struct eval *e, const struct eval_row *row)
{
	for (size_t i = 0; i < e->n_tasks; i++)
		if (e->tasks[i].row == row && !e->tasks[i].is_done)
			return false;
	return true;
}

static void show_count(const struct eval *e)
{
	if (isatty(STDERR_FILENO))
		(void)fprintf(stderr, "\r\x1b[K%zu of %zu runs", e->n_done, e->n_tasks);
}

static void hide_count(void)
{
	if (isatty(STDERR_FILENO))
		(void)fputs("\r\x1b[K", stderr);
}

/* Until all is done, or a signal came: that, or 0. */
static int watch(struct eval *e, const struct command *c, struct interrupt *interrupt)
{
	size_t n_shown = 0;
	int signal = 0;

	(void)pthread_mutex_lock(&e->lock);
	while (n_shown < e->n_rows && !signal) {
		struct timespec until;

		show_count(e);
		while (n_shown < e->n_rows && is_row_done(e, &e->rows[n_shown])) {
			hide_count();
			if (!c->common.json)
				eval_report_row(&e->rows[n_shown]);
			n_shown++;
		}
		(void)clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += LOOK_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (n_shown < e->n_rows)
			(void)pthread_cond_timedwait(&e->changed, &e->lock, &until);
		signal = interrupt_signal(interrupt);
	}
	hide_count();
	if (signal)
		stop_lanes(e, c->remote);
	(void)pthread_mutex_unlock(&e->lock);
	return signal;
}

static int report(const struct eval *e, const struct command *c, uint64_t since_us, struct err *err)
{
	const struct eval_opts *opts = c->arg;
	uint64_t time_ms = (clock_steady_us() - since_us) / 1000;
	int r = opts->junit ? eval_report_junit(opts->junit, e->rows, e->n_rows, err) : 0;

	if (c->common.json) {
		auto_json json_t *all = eval_report_json(e->rows, e->n_rows, time_ms);

		command_print_json(all);
	} else {
		eval_report_sum(e->rows, e->n_rows, time_ms);
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < e->n_rows; i++)
		if (!eval_row_is_passed(&e->rows[i]))
			return EXIT_FAILED;
	return 0;
}

/* Of the models that are asked: that no key is known is told before anything runs. */
static int check_keys(const struct eval *e, struct err *err)
{
	for (size_t i = 0; i < e->n_rows; i++) {
		const struct eval_suite *suite = e->rows[i].suite;
		int r = e->rows[i].c->prompt ? chat_check_key(&suite->model, err) : 0;

		if (r < 0)
			return err_prefix(err, "%s", suite->path);
	}
	return 0;
}

/* Before lanes begin: what sandboxes need is built once, and can be watched. */
static int prepare(const struct eval *e, struct command *c, struct err *err)
{
	for (size_t i = 0; i < e->n_rows; i++) {
		auto_json json_t *spec = NULL;
		int r = eval_run_spec(e->rows[i].c, &spec, err);

		if (r == 0)
			r = packages_prepare(c->remote, spec, err);
		if (r < 0)
			return err_prefix(err, "%s: case.%s", e->rows[i].suite->path,
			                  e->rows[i].c->name);
	}
	return 0;
}

static int run_tasks(struct command *c, struct interrupt *interrupt, void *arg, struct err *err)
{
	struct eval *e = arg;
	uint64_t since_us = clock_steady_us();
	int r = prepare(e, c, err);
	int signal = 0;

	if (r < 0)
		return r;
	r = start_lanes(e, c, err);
	if (r == 0) {
		signal = watch(e, c, interrupt);
	} else {
		(void)pthread_mutex_lock(&e->lock);
		e->is_stopped = true;
		(void)pthread_mutex_unlock(&e->lock);
	}
	end_lanes(e);
	if (r < 0)
		return r;
	return signal ? EXIT_SIGNAL + signal : report(e, c, since_us, err);
}

static int run(struct command *c, struct err *err)
{
	const struct eval_opts *opts = c->arg;
	struct eval e = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	int r = 0;

	if (opts->jobs > JOBS_MAX)
		r = err_set(err, ERR_INVALID_FIELD, 0, "--jobs: at most %d", JOBS_MAX);
	if (r == 0 && opts->threshold > 1)
		r = err_set(err, ERR_INVALID_FIELD, 0, "--threshold: must be from 0 to 1");
	if (r == 0)
		r = read_suites(&e, c, err);
	if (r == 0)
		r = make_tasks(&e, opts, err);
	if (r == 0)
		r = check_keys(&e, err);
	if (r == 0)
		r = fresh_run(c, opts->is_standalone, opts->keep ? "--keep" : NULL, run_tasks, &e,
		              err);
	eval_done(&e);
	return r;
}

int cmd_eval(int argc, char **argv)
{
	struct eval_opts opts = {.threshold = -1};
	/* clang-format off */
	const struct opt rows[] = {
		{'j', "jobs",       OPT_NUMBER,  &opts.jobs,          "N",    "run this many sandboxes at once (default 4)"},
		{0,   "repeat",     OPT_NUMBER,  &opts.repeat,        "N",    "run each case this often, whatever the file says"},
		{0,   "threshold",  OPT_DECIMAL, &opts.threshold,     "PART", "a case passes if this share of its runs passes, such as 0.9"},
		{0,   "case",       OPT_LIST,    &opts.cases,         "NAME", "only this one; may be repeated"},
		{0,   "base-url",   OPT_TEXT,    &opts.base_url,      "URL",  "the model's server, instead of the file's"},
		{0,   "model",      OPT_TEXT,    &opts.model,         "NAME", "the model, instead of the file's"},
		{0,   "junit",      OPT_TEXT,    &opts.junit,         "FILE", "write the results as JUnit XML"},
		{0,   "keep",       OPT_FLAG,    &opts.keep,          NULL,   "keep the sandboxes of runs that did not pass, and say how to enter them"},
		{0,   "standalone", OPT_FLAG,    &opts.is_standalone, NULL,   "start a daemon for this run even if one is running"},
	};
	/* clang-format on */
	const struct manual manual = {
		.name = "eval",
		.synopsis = "[OPTIONS] FILE…",
		.about = "Runs the cases of these files (TOML or JSON, docs/guides/evals.md), each "
			 "in a sandbox of its own. A case\n"
			 "runs code, a command, or a model that is asked something and may run "
			 "code. The result is compared\n"
			 "with what the case expects. The exit status is 0 if all cases passed, 1 "
			 "if one did not, and 125 if\n"
			 "the cases could not be run at all. A model's key is taken from the "
			 "environment.",
		.examples = "  cloche eval evals.toml\n"
			    "  cloche eval --repeat 10 --threshold 0.9 --junit report.xml "
			    "evals/*.toml\n"
			    "  cloche eval --case median --keep evals.toml",
		.min_words = 1,
		.max_words = WORDS_MAX,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};
	int status = command_main_offline(&manual, argc, argv, run, &opts);

	opt_list_done(&opts.cases);
	return status;
}
