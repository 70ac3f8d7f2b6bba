// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to src/sandbox: the members of an exec. */
#include "sandbox/exec/exec.h"
#include "sandbox/model/sandbox_private.h"

struct exec {
	struct sandbox *sandbox;
	struct loop *loop;
	char id[ID_SIZE];
	enum exec_state state;
	uint32_t number; /* of its channel */
	uint32_t pid;    /* inside; 0 = not known */
	struct channel channel;
	bool is_output_over; /* nothing more comes from the agent */
	bool is_dirty;       /* the row must be written */
	bool is_end_untold;  /* its end must be logged together with the row */
	bool is_turn_due;    /* exec_on_turn_end() is coming */
	bool is_removed;     /* watchers are told, then it is freed */
	bool is_dead;        /* freed without calling watchers */
	bool has_lost_output;
	bool is_stdin_ended, is_stdin_end_due; /* due: behind the feeds */
	json_t *argv;                          /* or NULL */
	char *shell, *cwd, *user;              /* or NULL */
	bool has_stdin, has_pty;
	bool ends_with_caller, is_orphan; /* is_orphan: its caller was an earlier gateway's */
	uint64_t timeout_ms;
	uint64_t created_us, started_us, ended_us;
	struct channel_exit exit; /* how 0: ended without an exit from the agent */
	enum end_cause cause;
	struct err *failure; /* if it never ran */
	bool is_exit_held;   /* exit is in, its cause is being asked for */
	uint64_t usage_tag, oom_kills_before, pids_refused_before;
	json_t *detail;      /* the figures of its cause, or NULL */
	char *why;           /* in words, or NULL */
	struct spool *spool; /* NULL: not opened since the restart; the figures are then: */
	uint64_t stdout_bytes, stderr_bytes, last_seq;
	uint64_t kept_bytes; /* of its output, as counted */
	struct span *span;   /* NULL: not traced, or of an earlier gateway */
	struct list watches;
	struct list feeds; /* exec_feed.c, in their order */
	struct list link;
	struct list link_kept, link_kept_project; /* while it is over and has output */
	UT_hash_handle hh;
};

/* exec.c */
struct exec *exec_alloc(struct sandbox *s);
void exec_attach(struct exec *e);        /* to its sandbox */
void exec_remove_all(struct sandbox *s); /* with spools and rows */
/* Removes some, the oldest first, until `left` remain. False when there are no more to remove. */
bool exec_remove_some(struct sandbox *s, size_t left);
void exec_free_all(struct sandbox *s); /* from memory only */
void exec_free(struct exec *e);        /* at the end of this turn */
void exec_wake(struct exec *e);        /* its watchers, at the end of this turn */
void exec_note(struct exec *e);        /* writes its row, and logs its end with it */
/* Adds its end to the waiting entries; the next write to the store writes them too. */
void exec_tell_end(struct exec *e);

/* exec_channel.c: what the agent says about it, and how it ends. */
extern const struct channel_ops exec_channel_ops;
void exec_rejoin_all(struct sandbox *s); /* puts running ones on the sandbox's link */
void exec_end_all(struct sandbox *s);    /* the sandbox ends: what ran has its cause */
/* It ends without its own EXIT. */
void exec_cut_short(struct exec *e, enum end_cause cause, const struct err *why);
/* Undoes an exec that was recorded and logged but could not be started. */
void exec_take_back(struct exec *e, const struct err *why);

/* exec_input.c: as exec_write_stdin(), in spite of feeds. */
must_check ssize_t exec_put_stdin(struct exec *e, const void *data, size_t len, struct err *err);
must_check int exec_put_stdin_end(struct exec *e, struct err *err);

/* exec_feed.c */
void exec_feed_on(struct exec *e); /* there may be room, or it has ended */
void exec_feed_free_all(struct exec *e);

/* Whether only the broker's counters can tell what killed it. */
bool exit_may_be_oom(const struct channel_exit *x);

/* exec_events.c */
void emit_exec_started(const struct exec *e);
void emit_exec_exited(const struct exec *e);

/* exec_command.c: an exec's spec, checked, as what is sent to the agent. The caller owns what *ret
 * holds.
 */
must_check int exec_command_build(const struct sandbox *s, const struct exec_spec *spec,
                                  const char *id, struct start *ret, struct err *err);

/* end_cause.c: why an exec ended, with the figures that decided. */
/* By its exit alone; or, if it failed, by the broker's counters too. */
enum end_cause end_cause_of_exit(const struct channel_exit *x);
enum end_cause end_cause_by_usage(const struct exec *e, const struct guest_usage *u);
bool end_cause_needs_usage(const struct channel_exit *x);
void end_cause_note_usage(struct sandbox *s,
                          const struct guest_usage *u); /* for those that follow */
/* Sets detail and why of one that has ended; u may be NULL. */
void end_cause_describe(struct exec *e, const struct guest_usage *u);
/* Whether the agent ended for lack of memory; and its figures, and a message. */
bool end_cause_is_shortage(const struct msg_reply *ended);
json_t *end_cause_describe_shortage(const struct sandbox *s, const struct guest_shortage *short_of,
                                    char *message, size_t size);

/* exec_row.c: the exec's row. */
/* Written together with the waiting log entries about it, or not at all. */
must_check int exec_save(struct exec *e, struct err *err);
must_check int exec_unsave(struct fleet *fleet, const char *const *ids, size_t n, struct err *err);
must_check int exec_row_json(const struct exec *e, struct buf *out);
must_check int exec_load(struct sandbox *s, const struct exec_row *row);

/* kept_output.c: counts and bounds the execs' output on disk. */
void kept_note(struct exec *e);   /* more has come */
void kept_end(struct exec *e);    /* its output is complete: it may be removed to make room */
void kept_forget(struct exec *e); /* e goes */
void kept_close(struct fleet *fleet);
/* The same for an exec whose sandbox has ended: those are bounded too (ended_retention.c). */
void retention_add_exec(const struct exec *e); /* of one that ended before the start */
void retention_remove_exec(const struct exec *e);
uint64_t kept_bytes_of(const struct exec *e); /* of its output, on disk */
void kept_trim(struct sandbox *s);            /* removes the oldest of too many execs */
