// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: the main thread reads the exec's events and writes them out. Stdin is pumped
 * by a thread of its own over a connection of its own, a call per stretch that was read, so that
 * somebody who thinks before typing holds no request open; signals have the thread of interrupt.c.
 * When the exec is over nobody waits for the stdin thread: it may sit in a read for ever, and ends
 * with the process.
 */
#include "cli/session/session.h"

#include "base/text/missing.h"
#include "cli/frame/command.h"
#include "cli/frame/commands.h"
#include "cli/remote/events.h"
#include "cli/session/attach.h"
#include "cli/term/text.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define STDIN_CHUNK (256 * 1024)

struct pump { /* the stdin thread's own */
	struct remote *remote;
	char *path; /* …/stdin */
};

struct chunk {
	const char *data;
	size_t len;
};

static ssize_t take_chunk(void *arg, char *data, size_t size, struct err *err)
{
	struct chunk *c = arg;
	size_t n = MIN(c->len, size);

	(void)err;
	memcpy(data, c->data, n);
	c->data += n;
	c->len -= n;
	return (ssize_t)n;
}

static int send_chunk(struct pump *p, const char *path, const char *data, size_t len,
                      struct err *err)
{
	struct chunk chunk = {data, len};
	struct remote_request request = {
		.source = take_chunk, .source_arg = &chunk, .source_len = (int64_t)len};

	return remote_exchange(p->remote, "POST", path, &request, NULL, err);
}

/* A command that ends or closes its stdin before ours does is no failure: it had enough. */
static void *pump_stdin(void *arg)
{
	struct pump *p = arg;
	char *data = xcalloc(1, STDIN_CHUNK);
	auto_free char *last = xasprintf("%s?eof=1", p->path);
	struct err err;
	int r = 0;

	while (r == 0) {
		ssize_t n = read(STDIN_FILENO, data, STDIN_CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		r = send_chunk(p, p->path, data, (size_t)n, &err);
	}
	if (r == 0)
		r = send_chunk(p, last, NULL, 0, &err);
	free(data);
	remote_close(p->remote);
	free(p->path);
	free(p);
	return NULL;
}

static void start_pump(const struct session *s, const char *exec_id)
{
	struct pump *p = xnew0(struct pump);
	pthread_t thread;
	struct err err;
	int r = remote_open_again(s->remote, &p->remote, &err);

	p->path = remote_path("sandboxes", s->sandbox, "execs", exec_id, "stdin");
	if (r == 0) {
		r = -pthread_create(&thread, NULL, pump_stdin, p);
		if (r < 0)
			(void)err_set(&err, ERR_INTERNAL, -r, "cannot start a thread");
	}
	if (r < 0) { /* the command runs: let it, and say why it hears nothing */
		(void)err_prefix(&err, "stdin is not passed on");
		(void)text_fail(&err);
		remote_close(p->remote);
		free(p->path);
		free(p);
		return;
	}
	(void)pthread_detach(thread);
}

static void on_started(const char *exec_id, void *arg)
{
	const struct session *s = arg;

	interrupt_aim(s->interrupt, s->remote, s->sandbox, exec_id);
	if (s->wants_stdin)
		start_pump(s, exec_id);
}

/* What the exit status alone cannot say. */
static void explain(const json_t *exec)
{
	const char *cause = command_text(exec, "cause");

	if (strcmp(cause, "oom") == 0)
		(void)fputs("cloche: the command was killed: the sandbox is out of memory\n",
		            stderr);
	else if (strcmp(cause, "timeout") == 0)
		(void)fprintf(stderr, "cloche: the command was ended: %s\n",
		              command_text(json_object_get(exec, "ended"), "message"));
	else if (strcmp(cause, "deleted") == 0 || strcmp(cause, "guest_crash") == 0)
		(void)fprintf(stderr, "cloche: the sandbox ended under the command (%s)\n", cause);
}

/* Below what the program has printed, which stays as it is. */
static void tell_missing(const struct output *output)
{
	char hint[MISSING_HINT_SIZE];

	if (missing_hint_in(output->last, output->last_len, hint))
		(void)fprintf(stderr, "cloche: %s\n", hint);
}

static int exit_status(const json_t *exec)
{
	const json_t *code = json_object_get(exec, "exit_code");
	uint64_t signo = command_number(exec, "signal");

	if (strcmp(command_text(exec, "cause"), "timeout") == 0)
		return EXIT_TIMEOUT;
	if (signo > 0)
		return EXIT_SIGNAL + (int)(signo & 127);
	return json_is_integer(code) ? (int)(json_integer_value(code) & 255) : EXIT_CLOCHE;
}

/* A missing directory or user is no missing program: the message begins with the field to blame. */
int session_start_status(const struct err *err)
{
	if (strncmp(err->message, "argv", 4) != 0)
		return EXIT_CLOCHE;
	if (err->code == ERR_FILE_NOT_FOUND)
		return EXIT_NOT_FOUND;
	if (err->code == ERR_FILE_DENIED || err->code == ERR_FILE_INVALID)
		return EXIT_NOT_EXECUTABLE;
	return EXIT_CLOCHE;
}

/* Nobody reads our output any more. As in a pipe, that is the end of the command. */
static int end_for_lack_of_readers(const struct session *s, const char *exec_id)
{
	auto_free char *path = remote_path("sandboxes", s->sandbox, "execs", exec_id);
	auto_call(remote_closep) struct remote *again = NULL;
	struct err err;

	if (remote_open_again(s->remote, &again, &err) < 0 ||
	    remote_call(again, "DELETE", path, NULL, NULL, &err) < 0)
		(void)text_fail(&err);
	return EXIT_SIGNAL + SIGPIPE;
}

int session_tell_end(const json_t *exec)
{
	const json_t *error = json_object_get(exec, "error");
	struct err err;

	if (strcmp(command_text(exec, "state"), "failed") != 0) {
		explain(exec);
		return exit_status(exec);
	}
	(void)err_set(&err, remote_error_code(command_text(error, "code")), 0, "%s",
	              command_text(error, "message"));
	(void)text_fail(&err);
	return session_start_status(&err);
}

static int finish(const struct session *s, const struct events *e, const struct output *output)
{
	int status;

	if (s->json) {
		output_print_result(output, e->exec);
		return exit_status(e->exec);
	}
	status = session_tell_end(e->exec);
	if (status != 0)
		tell_missing(output);
	return status;
}

static int run_streams(struct session *s, struct err *err)
{
	struct output output;
	struct events e = {.remote = s->remote,
	                   .sandbox = s->sandbox,
	                   .output = &output,
	                   .on_started = on_started,
	                   .arg = s};
	int r;

	if (s->wants_stdin)
		(void)json_object_set_new(s->body, "open_stdin", json_true());
	r = events_start(&e, s->body, err);
	if (r < 0) {
		(void)text_fail(err);
		return session_start_status(err);
	}
	output_init(&output, s->json ? OUTPUT_GATHER : OUTPUT_RAW);
	r = events_follow(&e, err);
	if (r == -EPIPE && e.exec_id)
		r = end_for_lack_of_readers(s, e.exec_id);
	else if (r == 0)
		r = finish(s, &e, &output);
	events_done(&e);
	output_done(&output);
	return r;
}

int session_run(struct session *s, struct err *err)
{
	return s->wants_pty ? attach_run(s, err) : run_streams(s, err);
}
