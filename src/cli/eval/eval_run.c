// SPDX-License-Identifier: Apache-2.0
#include "cli/eval/eval_run.h"

#include "base/clock.h"
#include "base/text/decimal.h"
#include "cli/eval/eval_chat.h"
#include "cli/eval/eval_judge.h"
#include "cli/frame/command.h"
#include "cli/session/fresh.h"
#include "cli/session/own_command.h"
#include "cli/session/script_language.h"
#include "cli/session/spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIFE_MORE_MS 120000           /* beyond the case's time: files, check, usage */
#define KEPT_MS      (60 * 60 * 1000) /* what a kept one has to be looked at */
#define FILE_MAX     (4 * 1024 * 1024)
#define TOLD_MAX     (16 * 1024) /* of an output, to the model */

struct run {
	struct eval_lane *lane;
	const struct eval_suite *suite;
	const struct eval_case *c;
	struct eval_result *result;
	char *user;      /* of its commands by the template, or NULL */
	char *directory; /* where its commands begin; NULL: the home, where relative paths begin */
	uint64_t deadline_us;
};

void eval_result_done(struct eval_result *r)
{
	json_decref(r->reasons);
	free(r->output);
	free(r->out);
	free(r->err);
	free(r->sandbox);
}

static void set_text(char **text, const char *value)
{
	free(*text);
	*text = xstrdup(value);
}

int eval_run_spec(const struct eval_case *c, json_t **ret, struct err *err)
{
	const struct eval_settings *s = &c->settings;
	const char *tag = xasprintf("eval=%s", c->name);
	struct sandbox_opts opts = {.template = s->template,
	                            .image = s->image,
	                            .snapshot = s->snapshot,
	                            .tags = {&tag, 1},
	                            .env = c->env,
	                            .allow = s->allow,
	                            .packages = s->packages,
	                            .language = s->language ? s->language : language_default->name,
	                            .network = s->network,
	                            .limits.memory_mib = s->memory_mib};
	int r = sandbox_opts_to_json(&opts, s->timeout_ms + LIFE_MORE_MS, ret, err);

	free(unconst(tag));
	return r;
}

static int create(struct run *run, struct err *err)
{
	auto_json json_t *spec = NULL, *sandbox = NULL;
	auto_free char *path = remote_path("sandboxes");
	int r = eval_run_spec(run->c, &spec, err);

	if (r == 0)
		r = remote_call(run->lane->remote, "POST", path, spec, &sandbox, err);
	if (r < 0)
		return r;
	run->result->sandbox = xstrdup(command_text(sandbox, "id"));
	run->lane->has_sandbox(run->lane, run->result->sandbox);
	/* Whoever stops us has either seen it just now, and removes it, or has told us before. */
	return run->lane->is_stopped(run->lane) ? err_set(err, ERR_UNAVAILABLE, EINTR, "stopped")
	                                        : 0;
}

struct text_source {
	const char *at;
	size_t left;
};

static ssize_t take_text(void *arg, char *data, size_t size, struct err *err)
{
	struct text_source *t = arg;
	size_t n = MIN(size, t->left);

	(void)err;
	memcpy(data, t->at, n);
	t->at += n;
	t->left -= n;
	return (ssize_t)n;
}

/* What a program in the sandbox means by it; for free(). */
static char *path_inside(const struct run *run, const char *name)
{
	return name[0] == '/' || !run->directory ? xstrdup(name)
	                                         : xasprintf("%s/%s", run->directory, name);
}

static int put_file(struct run *run, const char *name, const char *text, struct err *err)
{
	struct text_source source = {text, strlen(text)};
	const struct remote_request request = {
		.source = take_text, .source_arg = &source, .source_len = (int64_t)source.left};
	char *path = remote_path("sandboxes", run->result->sandbox, "files");
	auto_free char *inside = path_inside(run, name);
	int r;

	path = remote_query(path, "path", inside);
	path = remote_query(path, "parents", "1");
	if (run->user)
		path = remote_query(path, "user", run->user);
	r = remote_exchange(run->lane->remote, "PUT", path, &request, NULL, err);
	free(path);
	return r < 0 ? err_prefix(err, "files.%.80s", name) : 0;
}

static int put_files(struct run *run, struct err *err)
{
	const char *name;
	json_t *text;

	json_object_foreach (run->c->files, name, text) {
		int r = put_file(run, name, json_string_value(text), err);

		if (r < 0)
			return r;
	}
	return 0;
}

static uint64_t left_ms(const struct run *run)
{
	uint64_t now = clock_steady_us();

	return now >= run->deadline_us ? 0 : (run->deadline_us - now) / 1000 + 1;
}

/* Runs one exec to its end. 0: it has ended, however; the result has its output. */
static int exec(struct run *run, json_t *body, struct err *err)
{
	struct eval_result *result = run->result;
	auto_free char *path = remote_path("sandboxes", result->sandbox, "execs");
	auto_json json_t *reply = NULL;
	const json_t *ended, *exit_code;
	uint64_t ms = left_ms(run);
	int r;

	if (ms == 0)
		return err_set(err, ERR_TIMEOUT, 0, "its %" PRIu64 " s are over",
		               run->c->settings.timeout_ms / 1000);
	(void)json_object_set_new(body, "timeout_ms", json_integer((json_int_t)ms));
	r = remote_call(run->lane->remote, "POST", path, body, &reply, err);
	if (r < 0)
		return r;
	ended = json_object_get(reply, "exec");
	exit_code = json_object_get(ended, "exit_code");
	result->has_exit_code = json_is_integer(exit_code);
	result->exit_code = (int)json_integer_value(exit_code);
	set_text(&result->out, command_text(reply, "stdout"));
	set_text(&result->err, command_text(reply, "stderr"));
	if (!result->has_exit_code)
		eval_reason(result, "it was ended: %s", command_text(ended, "cause"));
	return 0;
}

static int run_code(struct run *run, const struct language *language, const char *code,
                    struct err *err)
{
	/* Where commands begin elsewhere than at home the user may not write. */
	const char *place = run->directory ? "/tmp/" : "";
	auto_free char *file = xasprintf("%smain.%s", place, language->extension);
	auto_free char *word = xasprintf("%s%s", run->directory ? "" : "./", file);
	auto_json json_t *body = json_pack("{s:[s,s]}", "argv", language->program, word);
	int r = put_file(run, file, code, err);

	return r < 0 ? r : exec(run, body, err);
}

static int run_shell(struct run *run, const char *command, struct err *err)
{
	auto_json json_t *body = json_pack("{s:s}", "shell", command);

	return exec(run, body, err);
}

/* The end of a text, which is where errors are, at a character's beginning. */
static const char *tail(const char *text)
{
	size_t len = strlen(text);

	if (len <= TOLD_MAX)
		return text;
	text += len - TOLD_MAX;
	while ((*text & 0xc0) == 0x80)
		text++;
	return text;
}

/* Runs what the model asks for; *ret is what it is told, for free(). */
static int serve_call(struct run *run, const struct chat_call *call, char **ret, struct err *err)
{
	struct eval_result *result = run->result;
	auto_json json_t *told = NULL;
	int r;

	if (!call->code) {
		*ret = xstrdup("This tool takes {\"language\": \"python\", \"javascript\" or "
		               "\"bash\", \"code\": \"…\"}.");
		return 0;
	}
	r = run_code(run, language_by_name(call->language), call->code, err);
	if (r < 0)
		return r;
	result->calls++;
	told = json_pack("{s:o, s:s, s:s}", "exit_code",
	                 result->has_exit_code ? json_integer(result->exit_code) : json_null(),
	                 "stdout", tail(result->out), "stderr", tail(result->err));
	(void)json_array_clear(result->reasons); /* a call that was ended is the model's to see */
	*ret = json_dumps(told, JSON_COMPACT);
	return 0;
}

static int serve_turn(struct run *run, struct chat *chat, const struct chat_turn *turn,
                      struct err *err)
{
	for (size_t i = 0; i < turn->n_calls; i++) {
		auto_free char *told = NULL;
		int r = serve_call(run, &turn->calls[i], &told, err);

		if (r < 0)
			return r;
		chat_answer(chat, turn->calls[i].id, told);
	}
	return 0;
}

static int converse(struct run *run, struct chat *chat, struct err *err)
{
	uint64_t turns = run->c->settings.max_turns;

	for (uint64_t i = 0; i < turns && !run->lane->is_stopped(run->lane); i++) {
		auto_call(chat_turn_done) struct chat_turn turn = {0};
		int r = chat_next(chat, &turn, err);

		if (r < 0)
			return r;
		set_text(&run->result->output, turn.text);
		if (turn.n_calls == 0)
			return 0;
		r = serve_turn(run, chat, &turn, err);
		if (r < 0)
			return r;
	}
	eval_reason(run->result, "the model was not done after %" PRIu64 " turns", turns);
	return 0;
}

static uint64_t price_of(const struct eval_model *m, const struct chat_tokens *tokens)
{
	return sum_u64(scale_u64(tokens->input, m->input_nano, 1000000),
	               scale_u64(tokens->output, m->output_nano, 1000000));
}

static int run_prompt(struct run *run, struct err *err)
{
	const struct eval_model *model = &run->suite->model;
	auto_call(chat_closep) struct chat *chat = NULL;
	struct chat_tokens tokens;
	int r = chat_open(model, run->c->settings.instructions, run->c->prompt, run->deadline_us,
	                  &chat, err);

	if (r < 0)
		return r;
	r = converse(run, chat, err);
	tokens = chat_tokens(chat);
	run->result->input_tokens = tokens.input;
	run->result->output_tokens = tokens.output;
	run->result->cost_nano = price_of(model, &tokens);
	return r;
}

static int work(struct run *run, struct err *err)
{
	const struct eval_case *c = run->c;
	const char *language = c->settings.language;
	uint64_t since_us = clock_steady_us();
	int r;

	run->deadline_us = since_us + c->settings.timeout_ms * 1000;
	if (c->prompt)
		r = run_prompt(run, err);
	else if (c->command)
		r = run_shell(run, c->command, err);
	else
		r = run_code(run, language ? language_by_name(language) : language_default, c->code,
		             err);
	run->result->time_ms = (clock_steady_us() - since_us) / 1000;
	if (r == 0 && !c->prompt)
		set_text(&run->result->output, run->result->out);
	return r;
}

/* The check's own output is shown where it fails; the run's stays what it was. */
static int check(struct run *run, struct err *err)
{
	struct eval_result *result = run->result;
	struct eval_result mine = {.reasons = result->reasons,
	                           .sandbox = result->sandbox,
	                           .out = xstrdup(""),
	                           .err = xstrdup("")};
	struct run other = *run;
	int r;

	other.result = &mine;
	other.deadline_us = clock_steady_us() + run->c->settings.timeout_ms * 1000;
	r = run_shell(&other, run->c->check, err);
	if (r < 0)
		r = err_prefix(err, "check");
	else if (!mine.has_exit_code || mine.exit_code != 0)
		eval_reason(result, "the check failed with exit code %d: %.160s", mine.exit_code,
		            *mine.err ? mine.err : mine.out);
	free(mine.out);
	free(mine.err);
	return r;
}

/* *ret is NULL where there is none. */
static int read_file(struct run *run, const char *name, char **ret, struct err *err)
{
	char *path = remote_path("sandboxes", run->result->sandbox, "files");
	auto_free char *inside = path_inside(run, name);
	struct buf text = BUF_INIT(FILE_MAX);
	int r;

	path = remote_query(path, "path", inside);
	if (run->user)
		path = remote_query(path, "user", run->user);
	r = remote_begin(run->lane->remote, "GET", path, &(struct remote_request){.accept = "*/*"},
	                 err);
	free(path);
	if (r < 0)
		return err->code == ERR_FILE_NOT_FOUND ? 0 : err_prefix(err, "%.80s", name);
	r = http_client_read_all(remote_client(run->lane->remote), &text);
	if (r < 0)
		r = err_set(err, ERR_TOO_LARGE, -r, "cannot read '%.80s'", name);
	else
		*ret = xstrndup(buf_str(&text), text.len);
	buf_done(&text);
	return r;
}

static int judge_files(struct run *run, struct err *err)
{
	for (size_t i = 0; i < run->c->n_claims; i++) {
		const struct eval_claim *claim = &run->c->claims[i];
		auto_free char *text = NULL;
		int r;

		if (claim->subject != EVAL_FILE)
			continue;
		r = read_file(run, claim->path, &text, err);
		if (r < 0)
			return r;
		eval_judge_claim(claim, text, run->result);
	}
	return 0;
}

static int read_usage(struct run *run, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", run->result->sandbox, "usage");
	auto_json json_t *reply = NULL;
	uint64_t cost = 0;
	int r = remote_call(run->lane->remote, "GET", path, NULL, &reply, err);

	if (r < 0)
		return r;
	(void)snprintf(run->result->currency, sizeof(run->result->currency), "%s",
	               command_text(reply, "currency"));
	if (decimal_parse(command_text(json_object_get(reply, "usage"), "cost"), &cost) == 0)
		run->result->cost_nano = sum_u64(run->result->cost_nano, cost);
	return 0;
}

static int try_case(struct run *run, struct err *err)
{
	int r = create(run, err);

	if (r == 0)
		own_place_read(run->lane->remote, run->result->sandbox, &run->directory,
		               &run->user);
	if (r == 0)
		r = put_files(run, err);
	if (r == 0)
		r = work(run, err);
	if (r == 0 && run->c->check)
		r = check(run, err);
	if (r == 0)
		r = read_usage(run, err);
	if (r == 0)
		r = judge_files(run, err);
	if (r == 0)
		eval_judge(run->c, run->result);
	return r;
}

/* It has an hour then, if the daemon gives that much. */
static void keep(struct run *run)
{
	auto_free char *path = remote_path("sandboxes", run->result->sandbox, "extend");
	auto_json json_t *body = json_pack("{s:i}", "ms", KEPT_MS);
	struct err err;

	(void)!remote_call(run->lane->remote, "POST", path, body, NULL, &err);
}

static void leave(struct run *run)
{
	struct eval_result *result = run->result;
	bool stays = run->lane->keeps && result->verdict != EVAL_PASSED;

	if (!result->sandbox)
		return;
	if (stays && !run->lane->is_stopped(run->lane)) {
		keep(run);
	} else {
		fresh_remove(run->lane->remote, result->sandbox);
		free(take_ptr(result->sandbox));
	}
	run->lane->has_sandbox(run->lane, NULL);
}

void eval_run(struct eval_lane *lane, const struct eval_suite *suite, const struct eval_case *c,
              struct eval_result *ret)
{
	struct run run = {.lane = lane, .suite = suite, .c = c, .result = ret};
	struct err err = {0};

	*ret = (struct eval_result){.reasons = json_array(),
	                            .output = xstrdup(""),
	                            .out = xstrdup(""),
	                            .err = xstrdup("")};
	if (try_case(&run, &err) < 0) {
		ret->verdict = EVAL_ERROR;
		eval_reason(ret, "%s%s%s", err.message, *err.hint ? "; " : "", err.hint);
	} else {
		ret->verdict = json_array_size(ret->reasons) ? EVAL_FAILED : EVAL_PASSED;
	}
	if (lane->is_stopped(lane))
		ret->verdict = EVAL_NOT_RUN;
	leave(&run);
	free(run.directory);
	free(run.user);
}
