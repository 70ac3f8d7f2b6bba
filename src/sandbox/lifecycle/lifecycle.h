// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Every move of a sandbox between its states. */
#include "sandbox/model/sandbox_private.h"

/* sandbox_row.c: the sandbox's row. */
must_check int sandbox_save(const struct sandbox *s, struct err *err);
must_check int sandbox_load(struct fleet *fleet, const struct sandbox_row *row,
                            struct sandbox **ret);

/* steps.c: a table of steps, one after the other. */
struct life_step {
	const char *name;
	void (*begin)(struct sandbox *s); /* life_next() follows, or the sandbox ends */
};
void life_begin(struct sandbox *s, const struct life_step *step);
void life_next(struct sandbox *s);

/* create_steps.c */
void create_init(struct sandbox *s); /* before the first step of its create */
void create_begin_span(struct sandbox *s, const char *name);
must_check int create_ask_guest(struct sandbox *s, struct err *err); /* the first step */
void create_begin_guest(struct sandbox *s); /* the same; its failure is the create's */
/* The create has failed; its caller is told once everything is undone. */
void create_fail(struct sandbox *s, const struct err *err);
void create_tell(struct sandbox *s, const struct err *err); /* all who wait for it to run */
void create_hostname(const struct sandbox *s, char hostname[64]);
void create_await(struct sandbox *s);   /* somebody waits for it to run: create_tell() will come */
void create_unawait(struct sandbox *s); /* but nobody else is to wait for that */
void create_again(struct sandbox *s, enum sandbox_phase how); /* a sandbox that ran before */

/* create.c */
void create_undo(struct sandbox *s, const struct err *err); /* one that runs already */
/* Makes a spare: a create that stops before an owner would be told. */
must_check int create_spare(struct fleet *fleet, const struct template *t,
                            const struct guest_limits *limits, uint32_t engine, struct spare *spare,
                            struct sandbox **ret, struct err *err);
must_check int create_check_room(struct fleet *fleet, struct err *err);
bool create_has_room(void *fleet); /* for tenant/create_queue.h */
/* The create was logged but failed: logs its end in the transaction that removes the row. */
void create_take_back(struct sandbox *s, enum end_cause cause);

/* ended_retention.c: what has ended is remembered for a while. */
void retention_init(struct fleet *fleet);
void retention_done(struct fleet *fleet);
void retention_add(struct sandbox *s); /* it has ended for good */

/* clocks.c: its two clocks. */
#define CLOCKS_FOREVER INT64_MAX
void clocks_init(struct sandbox *s);
void clocks_done(struct sandbox *s);
void clocks_await(struct sandbox *s); /* it is made: it will have its full time */
void clocks_on_running(struct sandbox *s);
void clocks_rejoin(struct sandbox *s);  /* after a restart: as the row has it */
void clocks_hold(struct sandbox *s);    /* it is paused: stops the clocks */
void clocks_rest_on(struct sandbox *s); /* after a restart, at rest: what runs on does */
void clocks_go_on(struct sandbox *s);
void clocks_end(struct sandbox *s);
void clocks_update(struct sandbox *s, bool has_new_timeout); /* after a change of its settings */
uint64_t clocks_expires_us(const struct sandbox *s);         /* by the wall clock; 0 = never */
enum timeout_action clocks_on_idle(const struct sandbox *s);

/* pause_in_memory.c */
void pause_rejoin(struct sandbox *s); /* after a restart: freezes or thaws it again */
void pause_cancel(struct sandbox *s); /* it ends: nobody waits any more */
void pause_done(struct sandbox *s);
void pause_thaw(struct sandbox *s); /* thaws one that is pausing and cannot be saved */

/* resume.c */
void resume_on_ended(struct sandbox *s); /* resumes it if somebody waits for that */
must_check int resume_check(struct sandbox *s, struct err *err); /* is there room for it? */

/* pause_to_disk.c: to disk and back. */
void pause_wake(struct sandbox *s, enum sandbox_phase how);     /* a paused one, for its callers */
void pause_try_again(struct sandbox *s);                        /* to put it away */
void pause_on_running(struct sandbox *s);                       /* if it was paused on disk */
void pause_on_link(struct sandbox *s);                          /* it is up again */
void pause_on_failed(struct sandbox *s, const struct err *err); /* it could not be woken */
void pause_forget(struct sandbox *s); /* it is no longer paused: removes its snapshot */
void pause_adopt(struct sandbox *s, bool is_alive);

/* parts.c: what a sandbox is made of. */
void parts_init(struct sandbox *s);
void parts_adopt(struct sandbox *s);      /* a living one, at the start of the daemon */
void parts_on_running(struct sandbox *s); /* it has just been created or resumed */
void parts_end(struct sandbox *s);        /* all that waits for it, runs in it or is connected */
void parts_free(struct sandbox *s);

/* connection.c */
void connection_init(struct sandbox *s);
void connection_rejoin(struct sandbox *s);
void connection_end(struct sandbox *s);
void connection_done(struct sandbox *s);
struct sandbox *sandbox_alloc(struct fleet *fleet);
void sandbox_discard(struct sandbox *s); /* out of the fleet, freed at the end of this turn */
void sandbox_forget(struct sandbox *s);  /* the same, and its row */
void sandbox_free(struct sandbox *s);    /* at once, and silently */
void sandbox_free_later(struct sandbox *s);
void sandbox_begin(struct sandbox *s); /* it runs, and its creator is told */
void sandbox_move(struct sandbox *s, enum sandbox_phase next);
void sandbox_make_link(struct sandbox *s);
void sandbox_set_share(struct sandbox *s); /* its project is known */
void sandbox_reconnect(struct sandbox *s); /* if its link is down */
void sandbox_note(struct sandbox *s);      /* saves what has happened; cannot be refused */

/* create_directory.c */
void directory_begin(struct sandbox *s);
void directory_end(struct sandbox *s); /* cancels it; twice is fine */

/* end.c */
void end_init(struct sandbox *s);
void end_done(struct sandbox *s);
/* Ends it in any state but an ended one, where it does nothing. detail: figures, or NULL; taken. */
void sandbox_end(struct sandbox *s, enum end_cause cause, json_t *detail, const char *message);
/* The same for a create or resume that failed: its callers are told why once nothing is left. */
void sandbox_undo(struct sandbox *s, enum end_cause cause, const char *message,
                  const struct err *why);
void sandbox_end_again(struct sandbox *s); /* one whose end an earlier gateway had begun */
/* Found dead at the start: nothing of it is left at the broker. */
void sandbox_close_books(struct sandbox *s, enum end_cause cause, json_t *detail,
                         const char *message);
void sandbox_end_orphan(struct sandbox *s); /* its caller was an earlier gateway's */
void sandbox_on_guest_ended(struct sandbox *s, const struct msg_reply *reply);

/* rollback.c */
void rollback_on_running(struct sandbox *s);
void rollback_on_failed(struct sandbox *s);
