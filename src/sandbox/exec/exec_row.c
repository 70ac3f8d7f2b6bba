// SPDX-License-Identifier: Apache-2.0
/*
 * An exec as a row of the store and as JSON for clients. A row is written when the exec starts and
 * when it has ended; in between, the spool and the agent have newer data. The row of an ended exec
 * holds its figures, so that its spool is opened only when somebody reads it.
 */
#include "base/log.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/model/create_rules.h"

#define ROW_MAX (1024 * 1024) /* the words are bounded by START_BYTES_MAX, and may be escaped */

static void note_figures(struct exec *e)
{
	if (!e->spool)
		return;
	e->stdout_bytes = spool_bytes(e->spool, SPOOL_STDOUT);
	e->stderr_bytes = spool_bytes(e->spool, SPOOL_STDERR);
	e->last_seq = spool_last_seq(e->spool);
}

static void put_words(const struct exec *e, struct json_writer *w)
{
	if (e->argv)
		json_put_value(w, "argv", e->argv);
	else
		json_put_null(w, "argv");
	json_put_str(w, "shell", e->shell);
	json_put_str(w, "cwd", e->cwd);
	json_put_str(w, "user", e->user);
	json_put_bool(w, "has_stdin", e->has_stdin);
	json_put_bool(w, "has_pty", e->has_pty);
	json_put_u64(w, "timeout_ms", e->timeout_ms);
}

static void put_figures(const struct exec *e, struct json_writer *w)
{
	json_put_u64(w, "last_seq", e->spool ? spool_last_seq(e->spool) : e->last_seq);
	json_put_u64(w, "stdout_bytes",
	             e->spool ? spool_bytes(e->spool, SPOOL_STDOUT) : e->stdout_bytes);
	json_put_u64(w, "stderr_bytes",
	             e->spool ? spool_bytes(e->spool, SPOOL_STDERR) : e->stderr_bytes);
}

static void put_exit(const struct exec *e, struct json_writer *w)
{
	json_put_u64(w, "how", e->exit.how);
	json_put_u64(w, "value", e->exit.value);
	json_put_u64(w, "wall_us", e->exit.wall_us);
	json_put_u64(w, "user_us", e->exit.user_us);
	json_put_u64(w, "system_us", e->exit.system_us);
	json_put_u64(w, "max_rss_kib", e->exit.max_rss_kib);
	json_put_u64(w, "cause", e->cause);
	if (e->detail)
		json_put_value(w, "detail", e->detail);
	if (e->why)
		json_put_strn(w, "why", e->why, strlen(e->why));
	if (!e->failure)
		return;
	json_put_u64(w, "error", e->failure->code);
	json_put_strn(w, "message", e->failure->message, strlen(e->failure->message));
	if (e->failure->field[0])
		json_put_str(w, "field", e->failure->field);
}

int exec_row_json(const struct exec *e, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	put_words(e, &w);
	json_put_bool(&w, "ends_with_caller", e->ends_with_caller);
	json_put_bool(&w, "is_output_over", e->is_output_over);
	json_put_u64(&w, "oom_kills_before", e->oom_kills_before);
	json_put_u64(&w, "pids_refused_before", e->pids_refused_before);
	json_put_u64(&w, "started_us", e->started_us);
	json_put_u64(&w, "ended_us", e->ended_us);
	put_figures(e, &w);
	put_exit(e, &w);
	json_close_object(&w);
	return json_writer_end(&w);
}

static int put_row(void *arg, struct err *err)
{
	struct exec *e = arg;
	auto_call(buf_done) struct buf json = BUF_INIT(ROW_MAX);
	struct exec_row row = {
		.id = e->id,
		.sandbox_id = e->sandbox->id,
		.channel = e->number,
		.state = e->state,
		.created_us = e->created_us,
	};
	int r;

	note_figures(e);
	r = exec_row_json(e, &json);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot record exec %s", e->id);
	row.json = json.data;
	r = store_put_exec(e->sandbox->fleet->config.store, &row, err);
	if (r == 0)
		e->is_dirty = false;
	return r;
}

struct rows {
	struct store *store;
	const char *const *ids;
	size_t n;
};

static int delete_rows(void *arg, struct err *err)
{
	const struct rows *rows = arg;

	return store_delete_execs(rows->store, rows->ids, rows->n, err);
}

int exec_save(struct exec *e, struct err *err)
{
	return event_log_save(e->sandbox->fleet->config.events, put_row, e, err);
}

int exec_unsave(struct fleet *fleet, const char *const *ids, size_t n, struct err *err)
{
	struct rows rows = {.store = fleet->config.store, .ids = ids, .n = n};

	return event_log_save(fleet->config.events, delete_rows, &rows, err);
}

struct spool *exec_spool(struct exec *e)
{
	const struct fleet *fleet = e->sandbox->fleet;
	uint64_t bytes_max = rules_effective_exec_limits(e->sandbox).output_bytes;
	uint64_t offset;
	struct err err;

	if (e->spool)
		return e->spool;
	if (spool_reopen(fleet->spool_fd, e->id, bytes_max, &e->spool, &offset, &err) == 0) {
		spool_raise(e->spool, e->last_seq, e->stdout_bytes, e->stderr_bytes);
		return e->spool;
	}
	log_error("exec.output_lost", "id=%s error='%s'", e->id, err.message);
	if (spool_new(fleet->spool_fd, e->id, bytes_max, &e->spool, &err) < 0)
		abort(); /* it does no I/O */
	spool_raise(e->spool, e->last_seq, e->stdout_bytes, e->stderr_bytes);
	return e->spool;
}

static char *copy(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

static int read_row(struct exec *e, const json_t *object)
{
	const char *shell = NULL, *cwd = NULL, *user = NULL, *message = NULL, *field = NULL,
		   *why = NULL;
	uint64_t how = 0, value = 0, cause = 0, error = 0;
	json_t *argv = NULL, *detail = NULL;
	const struct json_field fields[] = {
		{"argv", JSON_FIELD_ARRAY, &argv, .max = START_ARGS_MAX},
		{"shell", JSON_FIELD_STRING, &shell, .max = START_BYTES_MAX},
		{"cwd", JSON_FIELD_STRING, &cwd},
		{"user", JSON_FIELD_STRING, &user},
		{"has_stdin", JSON_FIELD_BOOL, &e->has_stdin, true},
		{"has_pty", JSON_FIELD_BOOL, &e->has_pty, true},
		{"timeout_ms", JSON_FIELD_U64, &e->timeout_ms, true},
		{"ends_with_caller", JSON_FIELD_BOOL, &e->ends_with_caller},
		{"is_output_over", JSON_FIELD_BOOL, &e->is_output_over, true},
		{"oom_kills_before", JSON_FIELD_U64, &e->oom_kills_before, true},
		{"pids_refused_before", JSON_FIELD_U64, &e->pids_refused_before},
		{"started_us", JSON_FIELD_U64, &e->started_us, true},
		{"ended_us", JSON_FIELD_U64, &e->ended_us, true},
		{"last_seq", JSON_FIELD_U64, &e->last_seq, true},
		{"stdout_bytes", JSON_FIELD_U64, &e->stdout_bytes, true},
		{"stderr_bytes", JSON_FIELD_U64, &e->stderr_bytes, true},
		{"how", JSON_FIELD_U64, &how, true, .max = EXIT_FAILED},
		{"value", JSON_FIELD_U64, &value, true, .max = UINT32_MAX},
		{"wall_us", JSON_FIELD_U64, &e->exit.wall_us, true},
		{"user_us", JSON_FIELD_U64, &e->exit.user_us, true},
		{"system_us", JSON_FIELD_U64, &e->exit.system_us, true},
		{"max_rss_kib", JSON_FIELD_U64, &e->exit.max_rss_kib, true},
		{"cause", JSON_FIELD_U64, &cause, true, .max = END_CAUSE_COUNT - 1},
		{"detail", JSON_FIELD_OBJECT, &detail},
		{"why", JSON_FIELD_STRING, &why},
		{"error", JSON_FIELD_U64, &error, .max = ERR_CODE_COUNT - 1},
		{"message", JSON_FIELD_STRING, &message},
		{"field", JSON_FIELD_STRING, &field},
	};
	int r = json_read(object, "", fields, ARRAY_SIZE(fields), NULL);

	if (r < 0)
		return r;
	e->argv = json_incref(argv);
	e->shell = copy(shell);
	e->cwd = copy(cwd);
	e->user = copy(user);
	e->exit.how = (enum exit_how)how;
	e->exit.value = (uint32_t)value;
	e->cause = (enum end_cause)cause;
	e->detail = json_incref(detail);
	e->why = copy(why);
	if (error != 0) {
		e->failure = xnew0(struct err);
		(void)err_set(e->failure, (enum err_code)error, 0, "%s", message ? message : "");
		(void)snprintf(e->failure->field, sizeof(e->failure->field), "%s",
		               field ? field : "");
	}
	return 0;
}

int exec_load(struct sandbox *s, const struct exec_row *row)
{
	auto_json json_t *object = NULL;
	struct exec *e;
	struct err err;

	if (row->state >= EXEC_STATE_COUNT || !id_is_valid(row->id, "ex") || row->channel == 0 ||
	    json_parse(row->json, strlen(row->json), &object, &err) < 0)
		return -EBADMSG;
	e = exec_alloc(s);
	(void)snprintf(e->id, sizeof(e->id), "%s", row->id);
	e->number = row->channel;
	e->state = (enum exec_state)row->state;
	e->created_us = row->created_us;
	if (read_row(e, object) < 0) {
		exec_free(e);
		return -EBADMSG;
	}
	exec_attach(e);
	retention_add_exec(e);
	if (e->is_output_over)
		kept_end(e);
	return 0;
}

static void put_time(struct json_writer *w, const char *name, uint64_t us)
{
	if (us)
		json_put_u64(w, name, us);
	else
		json_put_null(w, name);
}

static void put_number(struct json_writer *w, const char *name, bool is_given, uint32_t value)
{
	if (is_given)
		json_put_u64(w, name, value);
	else
		json_put_null(w, name);
}

static void put_error(struct json_writer *w, const struct err *err)
{
	if (!err) {
		json_put_null(w, "error");
		return;
	}
	json_open_object(w, "error");
	json_put_str(w, "code", err_code_name(err->code));
	json_put_strn(w, "message", err->message, strlen(err->message));
	if (err->field[0])
		json_put_str(w, "field", err->field);
	json_close_object(w);
}

static void put_ended(const struct exec *e, struct json_writer *w)
{
	if (e->state != EXEC_EXITED) {
		json_put_null(w, "ended");
		return;
	}
	json_open_object(w, "ended");
	json_put_str(w, "cause", end_cause_name(e->cause));
	if (e->detail)
		json_put_value(w, "detail", e->detail);
	else
		json_put_null(w, "detail");
	json_put_str(w, "message", e->why ? e->why : "");
	json_put_u64(w, "at_us", e->ended_us);
	json_close_object(w);
}

static void put_usage(const struct exec *e, struct json_writer *w)
{
	if (!exec_is_over(e) || e->exit.how == 0) {
		json_put_null(w, "usage");
		return;
	}
	json_open_object(w, "usage");
	json_put_u64(w, "wall_us", e->exit.wall_us);
	json_put_u64(w, "user_us", e->exit.user_us);
	json_put_u64(w, "system_us", e->exit.system_us);
	json_put_u64(w, "max_rss_kib", e->exit.max_rss_kib);
	json_close_object(w);
}

void exec_look(const struct exec *e, struct exec_facts *ret)
{
	*ret = (struct exec_facts){
		.argv = e->argv,
		.cwd = e->cwd,
		.started_us = e->started_us ? e->started_us : e->created_us,
		.ended_us = e->ended_us,
		.is_cut = e->state == EXEC_EXITED && e->exit.how == 0,
		.exit_code = e->exit.how == EXIT_CODE ? e->exit.value : 0,
		.exit_signal = e->exit.how == EXIT_SIGNAL ? e->exit.value : 0,
		.cause = e->cause,
	};
}

void exec_to_json(const struct exec *e, struct json_writer *w, const char *name)
{
	bool is_over = exec_is_over(e);

	json_open_object(w, name);
	json_put_str(w, "id", e->id);
	json_put_str(w, "sandbox_id", e->sandbox->id);
	json_put_str(w, "state", exec_state_name(e->state));
	put_words(e, w);
	json_put_u64(w, "created_us", e->created_us);
	put_time(w, "started_us", e->started_us);
	put_time(w, "ended_us", e->ended_us);
	put_number(w, "exit_code", is_over && e->exit.how == EXIT_CODE, e->exit.value);
	put_number(w, "signal", is_over && e->exit.how == EXIT_SIGNAL, e->exit.value);
	json_put_str(w, "cause", e->cause == END_NONE ? NULL : end_cause_name(e->cause));
	put_ended(e, w);
	put_error(w, e->failure);
	put_usage(e, w);
	put_figures(e, w);
	json_close_object(w);
}
