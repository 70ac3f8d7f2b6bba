// SPDX-License-Identifier: Apache-2.0
/*
 * A pause to disk: processes, memory and files are saved as a snapshot, and the guest is ended.
 *
 *	running --> pausing ─ snapshot, the guest stands still ─ row with paused_in ─ MSG_STOP ─►
 *	paused  ─ a call ─► creating ─ MSG_CREATE from it, with memory ─► running, and it goes
 *
 * The row tells the next start what to do, whenever a process was killed:
 *
 *	pausing			the guest was let go on by its broker's end: it runs
 *	pausing, paused_in	all is on disk: what may still live is ended
 *	paused, paused_in	it is at rest
 *	creating, paused_in	it lives: it runs. Else it is at rest as before
 *
 * It counts as paused when nothing of it is left in memory. Meanwhile its link has no connection,
 * so execs, contexts and calls wait as after any lost connection, and go on with the revived agent.
 * They go on only when the sandbox runs: a copy may still be given up after its agent has answered,
 * and the next copy starts at the same point. If a copy cannot be revived nothing is lost: the
 * sandbox stays paused, and the caller is told what else it can do.
 */
#include "base/log.h"
#include "base/units.h"
#include "sandbox/code/contexts.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/registry.h"
#include "sandbox/network/network.h"
#include "sandbox/network/ports.h"
#include "sandbox/snapshot/snapshot_private.h"
#include "sandbox/storage/storage.h"
#include "sandbox/usage/account.h"

#define AGAIN_US (5 * SECOND_US)

struct saving {
	struct fleet *fleet;
	char id[ID_SIZE]; /* it may be deleted meanwhile */
};

static int save_row(void *arg, struct err *err)
{
	return sandbox_save(arg, err);
}

static void at_rest(struct sandbox *s)
{
	sandbox_move(s, PHASE_ON_DISK);
	fleet_on_rested(s->fleet, s);
	sandbox_note(s);
	sandbox_tell_all(s, &s->pausers, NULL);
}

static void on_counted(struct sandbox *s)
{
	at_rest(s);
	if (!list_empty(&s->callers))
		pause_wake(s, PHASE_WAKING);
}

static void on_put_away(const struct msg_reply *reply, void *arg)
{
	struct sandbox *s = arg;

	s->ask = 0;
	if (reply->err.code == ERR_NONE) {
		account_on_gone(s, reply);
		network_when_over(s, on_counted);
		return;
	}
	log_error("sandbox.not_paused", "id=%s error='%s'", s->id, reply->err.message);
	loop_timer_set_in(s->timer, AGAIN_US);
}

/* Everything is on disk and recorded: ends what is in memory. */
static void put_away(struct sandbox *s)
{
	struct err err;

	if (sandbox_ask(s, MSG_STOP, on_put_away, &err) < 0) {
		log_error("sandbox.not_paused", "id=%s error='%s'", s->id, err.message);
		loop_timer_set_in(s->timer, AGAIN_US);
	}
}

void pause_try_again(struct sandbox *s)
{
	put_away(s);
}

static void close_link(struct sandbox *s)
{
	loop_timer_set(s->reconnect, UINT64_MAX);
	if (s->link)
		link_hang_up(s->link);
}

/* Records that it was saved; it is still frozen. */
static int record(struct sandbox *s, const struct snapshot *sn, struct err *err)
{
	int r;

	memcpy(s->paused_in, sn->id, sizeof(s->paused_in));
	r = event_log_save(s->fleet->config.events, save_row, s, err);
	if (r < 0) {
		s->paused_in[0] = '\0';
		return r;
	}
	sandbox_move(s, PHASE_PUTTING_AWAY);
	port_connection_cut_all(s, 0);
	network_end(s);
	close_link(s);
	put_away(s);
	return 0;
}

void pause_on_link(struct sandbox *s)
{
	if (s->phase == PHASE_UNSAVED)
		pause_thaw(s);
}

/* Its agent may have dropped the link for the save, and is connected again. */
static void give_up(struct sandbox *s, const struct err *err)
{
	log_warn("sandbox.not_saved", "id=%s error='%s'", s->id, err->message);
	if (broker_client_is_gone(s->fleet->broker)) { /* the next start lets it go on */
		sandbox_move(s, PHASE_HALF_PAUSED);
		sandbox_tell_all(s, &s->pausers, err);
		return;
	}
	s->create_err = *err;
	sandbox_move(s, PHASE_UNSAVED);
	if (link_is_up(s->link))
		pause_on_link(s);
	else
		sandbox_reconnect(s);
}

static void on_saved(struct snapshot *sn, const struct err *err, void *arg)
{
	struct saving saving = *(struct saving *)arg;
	struct sandbox *s = fleet_find_id(saving.fleet, saving.id);
	struct err failure;

	free(arg);
	if (!s || s->phase != PHASE_SAVING) { /* it was ended */
		if (sn)
			snapshot_drop_unused(saving.fleet, sn->id);
		return;
	}
	if (err) {
		give_up(s, err);
	} else if (record(s, sn, &failure) < 0) {
		snapshot_drop_unused(saving.fleet, sn->id);
		s->falls_back = false;
		give_up(s, &failure);
	}
}

static int save(struct sandbox *s, const struct pause_wish *wish, struct err *err)
{
	const struct snapshot_wish what = {.has_memory = true,
	                                   .closes_connections = wish->closes_connections,
	                                   .is_automatic = true,
	                                   .is_last = true};
	struct saving *saving = xnew0(struct saving);
	int r;

	*saving = (struct saving){.fleet = s->fleet};
	memcpy(saving->id, s->id, sizeof(saving->id));
	r = snapshot_take(s, &what, on_saved, saving, err);
	if (r < 0)
		free(saving);
	return r;
}

static bool can_save(const struct sandbox *s)
{
	return !(fleet_isolation(s->fleet, s->engine)->gaps & BIT(WALL_MEMORY_SNAPSHOTS)) &&
	       !volume_mounts_are_given(s);
}

static int refuse_frozen(const struct sandbox *s, struct err *err)
{
	(void)err_set(err, ERR_CONFLICT, 0, "sandbox %s is paused in memory", s->id);
	return err_hint(err, "resume it first: only a running sandbox can be saved to disk");
}

int sandbox_pause_as(struct sandbox *s, const struct pause_wish *wish, sandbox_done_fn done,
                     void *arg, struct err *err)
{
	const bool is_asked = wish->place == PAUSE_ON_DISK;
	int r;

	if (s->state == SANDBOX_RUNNING)
		s->pause_cause = wish->cause;
	if (wish->place == PAUSE_IN_MEMORY || (!is_asked && !can_save(s)))
		return sandbox_pause(s, done, arg, err);
	if (is_asked && s->state == SANDBOX_PAUSED && !s->paused_in[0])
		return refuse_frozen(s, err);
	if (s->state != SANDBOX_RUNNING)
		return sandbox_pause(s, done, arg, err);
	r = save(s, wish, err);
	if (r < 0)
		return is_asked ? r : sandbox_pause(s, done, arg, err);
	s->falls_back = !is_asked;
	clocks_hold(s);
	sandbox_move(s, PHASE_SAVING);
	sandbox_note(s);
	sandbox_wait(&s->pausers, done, arg);
	return 0;
}

/* Back. */

/* Ends all that ran: a cold start loses it. */
static void end_inside(struct sandbox *s)
{
	struct err err;

	(void)err_set(&err, ERR_GONE, 0, "sandbox %s was resumed without its memory", s->id);
	exec_end_all(s);
	context_end_all(s, &err);
	if (s->link) {
		link_lose_channels(s->link, &err);
		link_free(take_ptr(s->link));
	}
}

void pause_wake(struct sandbox *s, enum sandbox_phase how)
{
	struct err err;

	if (resume_check(s, &err) < 0) {
		sandbox_tell_all(s, &s->callers, &err);
		return;
	}
	if (how == PHASE_WAKING_COLD)
		end_inside(s);
	create_again(s, how);
}

int sandbox_resume_cold(struct sandbox *s, sandbox_done_fn done, void *arg, struct err *err)
{
	if (s->phase != PHASE_ON_DISK)
		return sandbox_resume(s, done, arg, err);
	sandbox_wait(&s->callers, done, arg);
	pause_wake(s, PHASE_WAKING_COLD);
	return 0;
}

/* The error says why it failed; the hint says what the caller can do. */
static void add_hint(struct sandbox *s, struct err *err)
{
	const struct snapshot *sn = snapshot_find(s->fleet, s->project_id, s->paused_in);

	if (s->phase == PHASE_WAKING_COLD || err->code == ERR_CAPACITY || err->code == ERR_QUOTA ||
	    err->code == ERR_UNAVAILABLE)
		return;
	if (sn && sn->parent_id[0])
		(void)err_hint(
			err,
			"resume it with memory: false, with its files alone; or roll it back to "
			"the snapshot before, %s",
			sn->parent_id);
	else
		(void)err_hint(err, "resume it with memory: false, with its files alone");
}

static void on_undone(const struct msg_reply *reply, void *arg)
{
	struct sandbox *s = arg;

	s->ask = 0;
	if (reply->err.code != ERR_NONE)
		log_error("sandbox.orphaned", "id=%s error='%s'", s->id, reply->err.message);
	at_rest(s);
	create_tell(s, &s->create_err);
}

static void undo(struct sandbox *s)
{
	const struct msg_reply none = {0};
	struct err ignored;

	sandbox_move(s, PHASE_WAKE_FAILED);
	close_link(s);
	network_end(s);
	if (sandbox_ask(s, MSG_STOP, on_undone, &ignored) < 0)
		on_undone(&none, s);
}

void pause_on_failed(struct sandbox *s, const struct err *err)
{
	if (s->phase != PHASE_WAKING && s->phase != PHASE_WAKING_COLD)
		return; /* it is over already */
	log_warn("sandbox.not_revived", "id=%s error='%s'", s->id, err->message);
	s->create_err = *err;
	add_hint(s, &s->create_err);
	undo(s);
}

void pause_on_running(struct sandbox *s)
{
	const struct snapshot *sn = snapshot_find(s->fleet, s->project_id, s->paused_in);

	if (!s->paused_in[0])
		return;
	s->base_bytes = sn && !sn->is_unshared ? sn->bytes : 0;
	clocks_go_on(s);
	pause_forget(s);
}

void pause_forget(struct sandbox *s)
{
	char last[ID_SIZE];

	s->falls_back = false;
	s->pause_cause = END_NONE;
	if (!s->paused_in[0])
		return;
	memcpy(last, s->paused_in, sizeof(last));
	s->paused_in[0] = '\0';
	sandbox_note(s); /* before it goes */
	snapshot_drop_unused(s->fleet, last);
}

/* The start. */

void pause_adopt(struct sandbox *s, bool is_alive)
{
	sandbox_make_link(s);
	exec_rejoin_all(s);
	context_rejoin_all(s);
	clocks_rest_on(s);
	if (s->phase == PHASE_ON_DISK && is_alive)
		sandbox_move(s, PHASE_PUTTING_AWAY);
	if (s->phase == PHASE_PUTTING_AWAY) {
		put_away(s);
	} else if (s->phase == PHASE_WAKING) {
		link_hold(s->link);
		create_await(s);
		if (is_alive)
			sandbox_reconnect(s);
		else /* something of it may just be ending */
			undo(s);
	}
}
