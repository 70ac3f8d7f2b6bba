// SPDX-License-Identifier: Apache-2.0
/* Calls about a process that have one answer. */
#include "compat/e2b/envd/process.h"

#include "api/frame/reply.h"
#include "base/clock.h"
#include "base/units.h"
#include "compat/e2b/envd/rpc.h"
#include "compat/e2b/frame/body.h"
#include "sandbox/exec/exec_feed.h"

#include <signal.h>
#include <string.h>

#define ENDED_KEPT_US (30 * SECOND_US) /* so that a late connect can see how it ended */

struct search {
	uint32_t pid;
	bool is_running;
	struct exec *found;
};

static void look(struct exec *e, void *arg)
{
	struct search *search = arg;

	if (search->found || exec_pid(e) != search->pid)
		return;
	if (exec_is_over(e) && (search->is_running || exec_state(e) == EXEC_FAILED ||
	                        clock_wall_us() > exec_ended_us(e) + ENDED_KEPT_US))
		return;
	search->found = e;
}

int process_find(struct sandbox *s, const json_t *message, bool is_running, struct exec **ret,
                 struct err *err)
{
	struct search search = {.is_running = is_running};
	const json_t *selector = NULL;
	int64_t pid = 0;
	int r = body_object(message, "process", &selector, err);

	if (r == 0)
		r = body_int(selector, "pid", &pid, NULL, err);
	if (r < 0)
		return r;
	if (pid > 0 && pid <= INT32_MAX) {
		search.pid = (uint32_t)pid;
		exec_each(s, look, &search);
	}
	if (!search.found)
		return err_set(err, ERR_NOT_FOUND, 0, "process with pid %lld not found",
		               (long long)pid);
	*ret = search.found;
	return 0;
}

static void put_process(struct exec *e, void *arg)
{
	struct json_writer *w = arg;
	const json_t *argv = exec_argv(e);

	if (exec_is_over(e) || exec_pid(e) == 0)
		return;
	json_open_object(w, NULL);
	json_put_u64(w, "pid", exec_pid(e));
	json_open_object(w, "config");
	json_put_str(w, "cmd", argv ? json_string_value(json_array_get(argv, 0)) : "/bin/sh");
	json_open_array(w, "args");
	for (size_t i = 1; i < json_array_size(argv); i++)
		json_put_value(w, NULL, json_array_get(argv, i));
	json_close_array(w);
	if (exec_cwd(e))
		json_put_str(w, "cwd", exec_cwd(e));
	json_close_object(w);
	json_close_object(w);
}

int envd_list(struct http_req *req, struct err *err)
{
	struct envd_caller caller;
	struct json_writer *w;
	struct reply reply;
	int r = envd_find(req, &caller, err);

	if (r != 0)
		return r;
	w = reply_begin(&reply);
	json_open_array(w, "processes");
	exec_each(caller.s, put_process, w);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

/* The process of the message, if it runs. */
static int find(struct http_req *req, struct exec **ret, struct err *err)
{
	struct envd_caller caller;
	int r = envd_find(req, &caller, err);

	return r != 0 ? r : process_find(caller.s, http_json(req), true, ret, err);
}

struct input_call { /* is answered when all of its bytes are taken */
	struct http_req *req;
	struct exec_feed *feed; /* NULL: it is through */
};

static void on_fed(const struct err *err, void *arg)
{
	struct input_call *call = arg;

	call->feed = NULL;
	if (err)
		http_reply_err(call->req, err);
	else
		rpc_reply_empty(call->req);
}

/* If the caller has left, nobody is told that what is not written yet was taken. */
static void on_input_done(void *arg)
{
	struct input_call *call = arg;

	if (call->feed)
		exec_feed_cancel(call->feed);
	free(call);
}

static void feed(struct http_req *req, struct exec *e, char *data, size_t len, bool closes)
{
	struct input_call *call = xnew0(struct input_call);

	call->req = req;
	call->feed = exec_feed(e, data, len, closes, on_fed, call);
	http_on_done(req, on_input_done, call);
}

int process_read_input(const json_t *message, const struct exec *e, char **ret, size_t *ret_len,
                       struct err *err)
{
	const json_t *input = NULL;
	const char *text = NULL, *tty = NULL;
	int r = body_object(message, "input", &input, err);

	if (r == 0)
		r = body_text(input, "stdin", &text, err);
	if (r == 0)
		r = body_text(input, "pty", &tty, err);
	if (r != 0)
		return r;
	if (exec_has_pty(e) != (tty != NULL))
		return err_set(err, ERR_INTERNAL, 0, "input of %s for a process with %s",
		               tty ? "a terminal" : "a pipe",
		               exec_has_pty(e) ? "a terminal" : "a pipe");
	return body_base64(tty ? tty : text ? text : "", "input", ret, ret_len, err);
}

int envd_send_input(struct http_req *req, struct err *err)
{
	char *data = NULL;
	struct exec *e;
	size_t len;
	int r = find(req, &e, err);

	if (r == 0)
		r = process_read_input(http_json(req), e, &data, &len, err);
	if (r == 0)
		feed(req, e, data, len, /* closes= */ false);
	return r;
}

int envd_close_stdin(struct http_req *req, struct err *err)
{
	struct exec *e;
	int r = find(req, &e, err);

	if (r != 0)
		return r;
	feed(req, e, NULL, 0, /* closes= */ true);
	return 0;
}

struct farewell { /* a kill that waits for the end */
	struct http_req *req;
	struct exec_watch watch;
};

static void on_farewell_done(void *arg)
{
	struct farewell *f = arg;

	exec_watch_remove(&f->watch);
	free(f);
}

static void on_news(struct exec *e, void *arg)
{
	struct farewell *f = arg;

	if ((!e || exec_is_over(e)) && !http_has_replied(f->req))
		rpc_reply_empty(f->req);
}

static void await_end(struct http_req *req, struct exec *e)
{
	struct farewell *f = xnew0(struct farewell);

	*f = (struct farewell){.req = req, .watch = {.fn = on_news, .arg = f}};
	exec_watch_add(e, &f->watch);
	http_on_done(req, on_farewell_done, f);
	on_news(e, f);
}

static int read_signal(const json_t *message, int *ret, struct err *err)
{
	const json_t *value = body_get(message, "signal");
	const char *name = json_string_value(value);
	json_int_t number = json_integer_value(value);

	if ((name && strcmp(name, "SIGNAL_SIGKILL") == 0) || number == SIGKILL)
		*ret = SIGKILL;
	else if ((name && strcmp(name, "SIGNAL_SIGTERM") == 0) || number == SIGTERM)
		*ret = SIGTERM;
	else
		return err_field(err, "signal", "must be SIGNAL_SIGKILL or SIGNAL_SIGTERM");
	return 0;
}

int envd_send_signal(struct http_req *req, struct err *err)
{
	struct exec *e;
	int signo = 0;
	int r = find(req, &e, err);

	if (r == 0)
		r = read_signal(http_json(req), &signo, err);
	/* A kill also ends what the process has started, and is answered when all is gone. */
	if (r == 0)
		r = exec_signal(e, signo, signo == SIGKILL, err);
	if (r == 0 && signo == SIGKILL)
		await_end(req, e);
	else if (r == 0)
		rpc_reply_empty(req);
	return r;
}

int envd_update(struct http_req *req, struct err *err)
{
	uint16_t rows = 0, cols = 0;
	bool has_pty = false;
	struct exec *e;
	int r = find(req, &e, err);

	if (r == 0)
		r = process_read_pty(http_json(req), &has_pty, &rows, &cols, err);
	if (r == 0 && has_pty)
		r = exec_resize(e, rows, cols, err);
	if (r == 0)
		rpc_reply_empty(req);
	return r;
}
