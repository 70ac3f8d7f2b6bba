// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * An exec: one command run in a sandbox, which outlives the client that started it. Its output goes
 * to a spool (output_spool.h) as events with sequence numbers; readers pull from there at their own
 * speed, and are notified when there is more.
 *
 *	starting --> running --> exited        failed: it never ran
 */
#include "sandbox/exec/output_spool.h"
#include "sandbox/model/sandbox.h"

struct exec;
struct trace_env;

enum exec_state { EXEC_STARTING, EXEC_RUNNING, EXEC_EXITED, EXEC_FAILED, EXEC_STATE_COUNT };
const char *exec_state_name(enum exec_state state);

struct exec_spec {              /* borrowed for the call */
	const json_t *argv;     /* array of strings, or NULL */
	const char *shell;      /* run by /bin/sh -c, or NULL; exactly one of the two */
	const char *cwd, *user; /* NULL = default */
	const json_t *env;      /* object of strings or NULL */
	bool has_stdin;         /* stays open until exec_close_stdin() */
	bool has_pty;
	uint16_t rows, cols;   /* 0 = 24 x 80 */
	uint64_t timeout_ms;   /* 0 = none */
	bool ends_with_caller; /* who leaves kills it, and a gateway that dies takes all callers
	                          along */
	const struct idempotency_key *idempotency_key; /* idempotency key, or NULL */
	const struct trace_env *trace; /* for its environment, set by exec_start(); or NULL */
};

must_check int exec_start(struct sandbox *s, const struct exec_spec *spec, struct exec **ret,
                          struct err *err);
struct exec *exec_find(struct sandbox *s, const char *id); /* borrowed or NULL */
void exec_each(struct sandbox *s, void (*fn)(struct exec *e, void *arg),
               void *arg); /* newest first */
void exec_to_json(const struct exec *e, struct json_writer *w, const char *name);
const char *exec_id(const struct exec *e);
enum exec_state exec_state(const struct exec *e);
bool exec_is_over(const struct exec *e);  /* exited or failed */
struct spool *exec_spool(struct exec *e); /* borrowed */
uint32_t exec_pid(const struct exec *e);  /* inside; 0 = not known yet */
bool exec_has_pty(const struct exec *e);
bool exec_has_stdin(const struct exec *e);        /* that can be written to, or could */
bool exec_has_closed_stdin(const struct exec *e); /* its program has, before its callers did */
uint64_t exec_stdin_bytes(const struct exec *e);  /* that were written to it so far */
const json_t *exec_argv(const struct exec *e); /* borrowed; NULL: it was given as a shell's words */
const char *exec_cwd(const struct exec *e);    /* as asked for, or NULL */
uint64_t exec_ended_us(const struct exec *e);  /* wall clock; 0 = it runs */
/* How it ended, if it is over; how 0: its sandbox ended before the agent reported an exit. */
struct channel_exit;
const struct channel_exit *exec_exit(const struct exec *e);
enum end_cause exec_cause(const struct exec *e);
/* Its exit code; -1 if a signal or the end of its sandbox ended it. */
int exec_exit_code(const struct exec *e);
const char *exec_why(const struct exec *e); /* in words, or NULL */
struct exec_facts {                         /* strings and JSON are borrowed */
	const json_t *argv;
	const char *cwd;                 /* as it was asked for, or NULL */
	uint64_t started_us, ended_us;   /* wall clock; 0 = not yet */
	bool is_cut;                     /* it ended with its sandbox */
	unsigned exit_code, exit_signal; /* if it ended by itself; signal 0 = it exited */
	enum end_cause cause;
};
void exec_look(const struct exec *e, struct exec_facts *ret);
/* If it failed: why it never ran (a code and sentence for the API). */
const struct err *exec_failure(const struct exec *e);

/* Writes to stdin what fits into the window. Returns how much (0: wait for a watcher's call), or <
 * 0 with err. */
must_check ssize_t exec_write_stdin(struct exec *e, const void *data, size_t len, struct err *err);
/* Behind all that was fed to it (exec_feed.h). */
must_check int exec_close_stdin(struct exec *e, struct err *err);
must_check int exec_signal(struct exec *e, int signo, bool whole_tree, struct err *err);
void exec_kill(struct exec *e); /* with its tree, if it runs and its agent answers */
must_check int exec_resize(struct exec *e, uint16_t rows, uint16_t cols, struct err *err);
/* Kills it if it runs, and forgets the exec and its output. */
void exec_remove(struct exec *e);

/* A watcher is called from the loop when there is new output, room in stdin, or a new state. */
struct exec_watch {
	struct list link;
	void (*fn)(struct exec *e,
	           void *arg); /* e is NULL when the exec is being removed: the watch is then off */
	void *arg;
};
void exec_watch_add(struct exec *e, struct exec_watch *w);
void exec_watch_remove(struct exec_watch *w); /* twice is fine */
