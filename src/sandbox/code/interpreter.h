// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Shared by context.c, the interpreter's files and code_call.c. */
#include "base/units.h"
#include "sandbox/code/code_call.h"
#include "sandbox/code/driver_message.h"
#include "sandbox/code/language.h"
#include "sandbox/model/sandbox_private.h"
#include "telemetry/span.h"

#define CONTEXTS_MAX 16 /* of a sandbox */
#define QUEUE_MAX    64 /* calls that wait, of a context */
/* A call that has lost its caller has this long to report its end. */
#define INTERPRETER_ORPHAN_US SECOND_US

enum interpreter_phase {
	PHASE_NONE,
	PHASE_START,
	PHASE_CALL,
	PHASE_ABANDONED,
	PHASE_GRACE,
	PHASE_LAST_GRACE,
	PHASE_LEAVE
};

struct code_call {
	struct list link; /* of the context's queue */
	struct context *context;
	struct loop *loop;
	const struct code_ops *ops; /* NULL: abandoned */
	void *arg;
	char *code;
	const char *env; /* lines for this call, of code_spec; or NULL */
	uint64_t timeout_ms;
	bool ends_with_caller;
	uint32_t number;
	uint64_t begun_us; /* 0: it waits */
	bool is_paused;
	bool is_restarted;
	const char *cause; /* noted while it runs */
	bool is_over;      /* on_end is on its way */
	struct code_end end;
	struct err *failure;     /* NULL: end counts */
	struct span *span;       /* NULL: not traced */
	struct trace_env *trace; /* that the code is told; or NULL */
};

/* Who waits for an imprint of an interpreter, or for one that starts with an imprint. Called from
 * the loop. */
struct interpreter_watch {
	/* It stands still and holds; or it goes on at once, and why says why. */
	void (*on_saved)(struct context *c, const char *why, void *arg);
	void (*on_imprint)(struct context *c, int fd, const char *why, void *arg); /* owns fd */
	void (*on_ready)(struct context *c, void *arg);                 /* the watch is over */
	void (*on_lost)(struct context *c, const char *why, void *arg); /* likewise */
};

struct context {
	struct sandbox *sandbox;
	struct loop *loop;
	char id[ID_SIZE];
	char *name; /* NULL: it is warm and has no owner */
	const struct language *language;
	char *cwd, *user; /* or NULL */
	json_t *env;      /* or NULL */
	uint64_t created_us;
	struct list link;
	bool is_removed;
	bool is_turn_due;

	/* the interpreter */
	enum context_state state;
	struct channel channel;
	uint32_t number; /* of the channel, as recorded */
	uint32_t sync;   /* not 0: its place in the stream is unknown until the answer to this */
	bool is_named;   /* the agent has said that it has it */
	bool is_split;   /* the call's code is sent in several pieces */
	uint64_t starts;
	char ahead_tag[ID_SIZE]; /* of a fork that was asked for before its start; or "" */
	uint64_t ahead_us;       /* when that was */
	uint64_t count;          /* as its last `done` said */
	bool is_fresh;           /* no call has run in it */
	bool is_copied;          /* of another sandbox's memory, and still as that one was */
	bool is_leaving;         /* it has announced its end */
	bool takes_env;          /* its driver knows the message `env` */
	bool can_save;           /* and `save` */
	uint32_t saving;         /* not 0: the number of a `save` without an answer yet */
	bool is_held;            /* it was saved: no call runs until interpreter_release() */
	int imprint_fd;          /* of the imprint that it starts with; -1: none */
	const struct interpreter_watch *watch; /* or NULL */
	void *watch_arg;
	struct buf in;            /* of messages */
	struct buf out;           /* what the channel had no room for */
	struct buf held;          /* output that came during a pause, see interpreter_stream.c */
	struct channel_exit exit; /* how 0: it has not ended */
	bool is_exit_held;        /* waits for held output, or for the broker */
	uint64_t usage_tag;
	bool is_forked; /* begun as a fork of a zygote */
	uint64_t fork_tag;
	struct loop_timer *timer;
	enum interpreter_phase phase;
	uint64_t again_us;        /* until an abandoned call is interrupted once more */
	int deadline;             /* its slot */
	uint64_t orphan_until_us; /* of the call that an earlier gateway has left; 0 = none */

	/* its calls */
	struct code_call *running;
	struct list queue;
	size_t n_queue;
	uint32_t last_call;
};

/* context.c */
struct context *context_new(struct sandbox *s, const struct language *language); /* nobody's */
/* Sets its name (NULL: one is made up) and adds it to its sandbox. */
void context_set(struct context *c, const char *name, const struct context_spec *spec);
/* Makes it with its interpreter; uses a waiting one if possible. */
must_check int context_make(struct sandbox *s, const char *name, const struct context_spec *spec,
                            struct context **ret, struct err *err);

/* context_row.c: the context's row. */
must_check int context_save(struct context *c, struct err *err);
must_check int context_load(struct sandbox *s, const struct context_row *row);
must_check int context_row_json(const struct context *c, struct buf *out);

/* interpreter.c */
void interpreter_init(struct context *c);
void interpreter_done(struct context *c);
/* Kills it with all that it started. A running call ends with that cause. */
void interpreter_drop(struct context *c, const char *cause, const char *message);
void interpreter_run(struct context *c, struct code_call *call); /* must be idle */
must_check int interpreter_interrupt(struct context *c, struct err *err);
/* Interrupts the running call, which nobody waits for any more, repeatedly until it ends. */
void interpreter_abandon(struct context *c);
void interpreter_wake(struct context *c); /* checks at the end of this turn what can go on */
void interpreter_broken(struct context *c, const char *what); /* ends one that broke the protocol */
void interpreter_set_phase(struct context *c, enum interpreter_phase phase, uint64_t in_us);
void interpreter_set_deadline(struct context *c, uint64_t in_us); /* on record; 0: no call runs */
void interpreter_set_split(struct context *c, bool is_split);     /* on record */
/* The process has ended; that is handled once all its output was taken. */
void interpreter_settle_exit(struct context *c);
void interpreter_reset(struct context *c); /* to the state of no process */
void interpreter_lost(struct context *c, const struct err *why);
extern const struct channel_ops interpreter_channel_ops;

/* interpreter_start.c */
must_check int interpreter_start(struct context *c, struct err *err);
/* In place of a fork that failed. */
void interpreter_start_afresh(struct context *c, const char *why);
uint64_t interpreter_start_us(const struct context *c); /* a start may take as long */
void interpreter_rejoin(struct context *c); /* rejoins one that an earlier gateway started */

/* Asks for the process of one that will be started with an imprint: most of its start is done by
 * then. */
void interpreter_fork_ahead(struct context *c);
/* Has an idle one hold as after interpreter_save(), which is not asked. */
void interpreter_hold(struct context *c, const struct interpreter_watch *w, void *arg);
void interpreter_write(struct context *c); /* what is queued, as far as there is room */

/* interpreter_imprint.c */
/* Asks an idle one for its imprint, if that fits twice into room bytes. */
void interpreter_save(struct context *c, uint64_t room, const struct interpreter_watch *watch,
                      void *arg);
void interpreter_release(struct context *c); /* calls go on */
/* Starts one that goes on with an imprint, which stays the caller's. */
must_check int interpreter_start_copied(struct context *c, int fd,
                                        const struct interpreter_watch *watch, void *arg,
                                        struct err *err);
must_check int interpreter_on_saved(struct context *c, const struct driver_message *m);
void interpreter_on_imprint(struct context *c, int fd, const char *why); /* owns fd */
void interpreter_tell_ready(struct context *c);
void interpreter_tell_lost(struct context *c, const char *why);
void interpreter_unwatch(struct context *c);

/* interpreter_stream.c */
must_check int interpreter_take(struct context *c, enum frame_stream stream, const char *data,
                                size_t len); /* < 0: the agent is in error */
bool interpreter_is_paused(struct context *c);
void interpreter_flush(struct context *c); /* after a pause has ended */

/* code_call.c */
void code_kick(struct context *c); /* starts what can be started */
void code_end(struct code_call *call, const struct code_end *end);
void code_fail(struct code_call *call, const struct err *err);
void code_fail_all(struct context *c, const struct err *err); /* those that wait, too */
void code_forget_all(struct context *c);                      /* without a word */
struct code_call *code_current(struct context *c); /* who gets the output; NULL = nobody */
void code_tell_output(struct code_call *call, enum frame_stream stream, const char *data,
                      size_t len);
void code_tell_event(struct code_call *call, enum code_event event, json_t *value); /* takes it */

/* code_events.c */
void emit_context_created(const struct context *c);
void emit_context_ended(const struct context *c);
void emit_code_ended(const struct code_call *call);
