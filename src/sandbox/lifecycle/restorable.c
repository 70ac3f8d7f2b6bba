// SPDX-License-Identifier: Apache-2.0
#include "sandbox/lifecycle/restorable.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "node/owned.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/registry.h"
#include "sandbox/model/sandbox_events.h"
#include "sandbox/network/network.h"
#include "sandbox/snapshot/snapshot_private.h"
#include "sandbox/snapshot/snapshot_shared.h"
#include "sandbox/usage/account.h"

#include <string.h>

#define AGAIN_US  SECOND_US
#define CPU_STEP  (UINT64_C(10) * 1000 * 1000) /* ns: less is no work */
#define MIX_STAMP UINT64_C(1099511628211)

/* Standing still. */

static void emit(const struct sandbox *s, enum event_type type)
{
	struct event ev;

	(void)emit_begin(&ev, s, type);
	event_end(&ev);
}

static void on_thawed(const struct msg_reply *reply, void *arg)
{
	struct sandbox *s = arg;

	s->outlive.ask = 0;
	if (reply->err.code != ERR_NONE) {
		log_warn("sandbox.not_thawed", "id=%s error='%s'", s->id, reply->err.message);
		return; /* asked for again with the next beat */
	}
	s->outlive.is_still = false;
	network_go_on(s);
	restorable_look(s);
}

static void on_frozen(const struct msg_reply *reply, void *arg)
{
	struct sandbox *s = arg;

	s->outlive.ask = 0;
	if (reply->err.code != ERR_NONE)
		log_error("sandbox.not_fenced", "id=%s error='%s'", s->id, reply->err.message);
	s->outlive.is_still = true; /* perhaps: it is thawed in any case */
	restorable_look(s);
}

static void ask(struct sandbox *s, enum msg_op op, broker_client_fn fn)
{
	struct msg_request req = {.op = op};
	struct err err;

	memcpy(req.id, s->id, sizeof(req.id));
	if (broker_client_ask(s->fleet->broker, &req, fn, s, &s->outlive.ask, &err) < 0)
		log_error("sandbox.not_fenced", "id=%s error='%s'", s->id, err.message);
}

static void close_it(struct sandbox *s)
{
	s->outlive.is_closed = s->outlive.is_told = true;
	sandbox_disturb(s);
	log_warn("sandbox.fenced", "id=%s", s->id);
	emit(s, EVENT_SANDBOX_FENCED);
}

static void open_it(struct sandbox *s)
{
	s->outlive.is_closed = false;
	log_info("sandbox.unfenced", "id=%s", s->id);
	if (s->outlive.is_told)
		emit(s, EVENT_SANDBOX_UNFENCED);
	s->outlive.is_told = false;
	sandbox_touch(s);
}

void restorable_look(struct sandbox *s)
{
	const bool may = !s->outlive.is_asked || node_owns(s->fleet->config.node);
	const bool is_running = s->phase == PHASE_RUNNING;

	if (s->spare || (may && !s->outlive.is_closed))
		return;
	if (!s->outlive.is_closed)
		close_it(s);
	if (s->outlive.ask)
		return; /* its answer comes back here */
	if (!may && is_running && !s->outlive.is_still)
		ask(s, MSG_FREEZE, on_frozen);
	else if (may && is_running && s->outlive.is_still)
		ask(s, MSG_THAW, on_thawed);
	else if (may)
		open_it(s);
}

/* An earlier gateway may have frozen it, or not. */
void restorable_adopt(struct sandbox *s)
{
	if (!s->outlive.is_asked)
		return;
	s->outlive.is_closed = true;
	s->outlive.is_still = node_owns(s->fleet->config.node);
	restorable_look(s);
}

/* Something runs in it again. */
void restorable_on_running(struct sandbox *s)
{
	s->outlive.rest = 0;
}

void restorable_cancel(struct sandbox *s)
{
	broker_client_cancel(s->fleet->broker, s->outlive.ask);
	s->outlive.ask = 0;
	s->outlive.is_still = false;
}

void restorable_free(struct sandbox *s)
{
	restorable_cancel(s);
	loop_timer_free(s->outlive.again);
}

/* The next start of one that was taken over. */

struct restorable_wait {
	struct fleet *fleet;
	char id[ID_SIZE];
};

static void on_brought(const struct err *err, void *arg)
{
	const struct restorable_wait b = *(struct restorable_wait *)arg;
	struct sandbox *s = fleet_find_id(b.fleet, b.id);

	free(arg);
	if (!s || !s->outlive.is_fetching)
		return;
	s->outlive.is_fetching = false;
	if (sandbox_is_alive(s) || !s->is_kept)
		return; /* it is being deleted */
	if (!err) {
		resume_go_on(s);
		return;
	}
	log_warn("sandbox.not_brought", "id=%s error='%s'", s->id, err->message);
	account_on_files_lost(s); /* what its start would have held */
	sandbox_tell_all(s, &s->callers, err);
}

bool restorable_bring(struct sandbox *s)
{
	struct fleet *fleet = s->fleet;
	struct restorable_wait *b;
	struct err err;
	int r = -ENOENT;

	if (!s->outlive.origin[0] ||
	    (s->rolls_to[0] && strcmp(s->rolls_to, s->outlive.origin) != 0))
		return false;
	memcpy(s->rolls_to, s->outlive.origin, sizeof(s->rolls_to));
	if (snapshot_find(fleet, s->project_id, s->outlive.origin))
		return false;
	s->rolls_to[0] = '\0';
	if (s->outlive.is_fetching)
		return true;
	b = xnew0(struct restorable_wait);
	b->fleet = fleet;
	memcpy(b->id, s->id, sizeof(b->id));
	s->outlive.is_fetching = true;
	if (fleet_forbids(fleet, s->engine) || fleet_isolation(fleet, s->engine)->engine == 0) {
		(void)err_set(
			&err, ERR_UNSUPPORTED, 0,
			"sandbox %s is a %s, and this node, which has taken it over, runs none",
			s->id, engine_name(s->engine));
		(void)err_hint(&err, "`cloche doctor` on the node says why; its setting `engines` "
		                     "may forbid it");
	} else if (!fleet->bring) {
		(void)err_set(&err, ERR_UNAVAILABLE, 0, "nobody brings the files of sandbox %s",
		              s->id);
	} else
		r = fleet->bring(s->project_id, s->outlive.origin, s->id, on_brought, b,
		                 fleet->bring_arg, &err);
	if (r > 0)
		return true;
	s->outlive.is_fetching = false;
	free(b);
	account_on_files_lost(s);
	sandbox_tell_all(s, &s->callers, &err);
	return true;
}

void restorables_bring_by(struct fleet *fleet, restorable_bring_fn fn, void *arg)
{
	fleet->bring = fn;
	fleet->bring_arg = arg;
}

/* A delete. */

static void forget_generations(struct sandbox *s)
{
	struct err err;

	list_for_each (&s->fleet->snapshots, struct snapshot, sn, link)
		if (sn->is_generation && !sn->is_fetched && strcmp(sn->source_id, s->id) == 0 &&
		    snapshot_remove(sn, &err) < 0)
			log_warn("snapshot.not_removed", "error='%s'", err.message);
}

void restorable_drop_generations(struct sandbox *s)
{
	list_for_each (&s->fleet->snapshots, struct snapshot, sn, link)
		if (sn->is_generation && !sn->is_fetched && strcmp(sn->source_id, s->id) == 0)
			snapshot_drop(sn); /* what is stored is the other node's now */
}

static void on_disowned(enum owned_result result, uint64_t term, const struct err *err, void *arg)
{
	const struct restorable_wait b = *(struct restorable_wait *)arg;
	struct sandbox *s = fleet_find_id(b.fleet, b.id);
	struct err why;

	(void)term;
	free(arg);
	if (!s || !s->outlive.is_disowning)
		return;
	s->outlive.is_disowning = false;
	if (result == OWNED_REFUSED) {
		log_warn("sandbox.not_disowned", "id=%s error='%s'", s->id, err->message);
		loop_timer_set_in(s->outlive.again, AGAIN_US);
		return;
	}
	if (result == OWNED_ELSEWHERE) {
		(void)err_set(&why, ERR_FENCED, 0,
		              "another node of the cluster has restored sandbox %s meanwhile",
		              s->id);
		(void)err_hint(&why, "delete it again: it is deleted there then");
		sandbox_tell_all(s, &s->waiters, &why);
		restorable_drop_generations(s);
	} else {
		forget_generations(s);
	}
	s->outlive.is_asked = false;
	life_next(s);
}

static void disown(struct loop *loop, void *arg)
{
	struct sandbox *s = arg;
	struct restorable_wait *b = xnew0(struct restorable_wait);

	(void)loop;
	b->fleet = s->fleet;
	memcpy(b->id, s->id, sizeof(b->id));
	s->outlive.is_disowning = true;
	node_disown(s->fleet->config.node, s->project_id, s->id, on_disowned, b);
}

void restorable_disown(struct sandbox *s)
{
	if (s->is_kept || !s->outlive.is_asked || !s->fleet->config.node) {
		life_next(s);
		return;
	}
	if (!s->outlive.again)
		s->outlive.again = loop_timer_new(s->fleet->config.loop, disown, s);
	disown(s->fleet->config.loop, s);
}

/* Generations. */

void restorables_each(struct fleet *fleet, void (*fn)(struct sandbox *s, void *arg), void *arg)
{
	list_for_each (&fleet->all, struct sandbox, s, link_all)
		if (s->on_node_loss == ON_NODE_LOSS_RESTORE &&
		    (s->place == PLACE_ALIVE || s->place == PLACE_KEPT))
			fn(s, arg);
}

bool restorable_is_at_rest(const struct sandbox *s)
{
	return (s->phase == PHASE_ON_DISK || !sandbox_is_alive(s)) && s->is_kept &&
	       !s->outlive.origin[0];
}

bool restorable_can_take(const struct sandbox *s)
{
	return !s->outlive.is_closed &&
	       (s->phase == PHASE_RUNNING || s->phase == PHASE_FROZEN || restorable_is_at_rest(s));
}

bool restorable_can_be_owned(const struct sandbox *s)
{
	return s->is_kept && !s->is_deleted && !s->outlive.is_leaving;
}

struct snapshot *restorable_other_generation(const struct sandbox *s, const char *but)
{
	list_for_each (&s->fleet->snapshots, struct snapshot, sn, link)
		if (sn->is_generation && !sn->is_fetched && strcmp(sn->source_id, s->id) == 0 &&
		    strcmp(sn->id, s->outlive.generation) != 0 && strcmp(sn->id, but) != 0)
			return sn;
	return NULL;
}

uint64_t restorable_stamp(const struct sandbox *s)
{
	uint64_t stamp = s->outlive.changes;

	stamp = stamp * MIX_STAMP + s->account->seen.cpu_ns / CPU_STEP;
	stamp = stamp * MIX_STAMP + s->active_us;
	return stamp * MIX_STAMP + s->resumes;
}

int restorable_set_asked(struct sandbox *s, struct err *err)
{
	int r;

	if (s->outlive.is_asked)
		return 0;
	s->outlive.is_asked = true;
	r = sandbox_save(s, err);
	if (r < 0)
		s->outlive.is_asked = false;
	return r;
}

void restorable_set_generation(struct sandbox *s, const struct restorable_generation *g)
{
	memcpy(s->outlive.generation, g->id, sizeof(s->outlive.generation));
	s->outlive.generation_us = g->taken_us;
	s->outlive.term = g->term;
	s->outlive.rest = g->is_at_rest ? s->resumes + 1 : 0;
	sandbox_note(s);
}

const char *restorable_generation(const struct sandbox *s)
{
	return s->outlive.generation;
}

bool restorable_has_rested(const struct sandbox *s)
{
	return s->outlive.rest == s->resumes + 1;
}

uint64_t restorable_term(const struct sandbox *s)
{
	return s->outlive.term;
}

void restorable_doubt(struct sandbox *s)
{
	node_compare_owned(s->fleet->config.node);
}
