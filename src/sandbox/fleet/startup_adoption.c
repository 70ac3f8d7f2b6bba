// SPDX-License-Identifier: Apache-2.0
/*
 * The start. Two lists are compared: the sandboxes in the store, and those that the broker reports
 * as alive.
 *
 *	in the store      at the broker
 *	running, paused   alive             its agent is connected to, its execs go on
 *	running, paused   not               the books are closed: guest_crash, or host_restart
 *	creating          alive             its creator is gone: it is ended
 *	creating          not               the row goes
 *	paused on disk    either            pause_to_disk.c
 *	stopping          either            it is deleted, or stopped, to the end; if its results
 *	                                    are due, its agent is connected to before
 *	ended, or none    alive             it is deleted at the broker
 *	kept              a layer           it can be resumed
 *	kept              none              its files are lost: it has ended
 *	none              a layer           it is removed if this store is its keeper, else left
 *
 * The store decides what shall exist; the mark on a layer (engine/layer/kept_layer.h) only protects
 * it until then.
 *
 * Files in the spool directory that no exec owns are removed. The fleet is ready when each agent
 * has answered, or after PATIENCE_US: one silent agent must not keep the daemon from serving the
 * rest.
 */
#include "base/fs/dir_reader.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/code/interpreter.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/fleet/fleet_private.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/lifecycle/results.h"
#include "sandbox/model/registry.h"
#include "sandbox/network/network.h"
#include "sandbox/pool/pool.h"
#include "sandbox/snapshot/snapshots.h"
#include "sandbox/storage/storage.h"
#include "sandbox/usage/account.h"

#include <fcntl.h>

#define PATIENCE_US (2 * SECOND_US)

struct known { /* an id in a set */
	char id[ID_SIZE];
	uint64_t keeper; /* of what the broker has; 0 = none */
	UT_hash_handle hh;
};

struct adoption {
	struct fleet *fleet;
	loop_fn ready;
	void *arg;
	size_t rejoining;
	bool has_probe, has_list, has_images, has_snapshots, has_volumes;
	struct loop_timer *patience;
	struct known *alive; /* sandboxes at the broker */
	struct known *kept;  /* layers without a living guest */
	struct known *execs; /* that own a spool */
};

static void know(struct known **set, const char *id, uint64_t keeper)
{
	struct known *k = NULL;

	HASH_FIND_STR(*set, id, k);
	if (k)
		return;
	k = xnew0(struct known);
	(void)snprintf(k->id, sizeof(k->id), "%s", id);
	k->keeper = keeper;
	HASH_ADD_STR(*set, id, k);
}

static bool is_known(struct known *set, const char *id)
{
	struct known *k = NULL;

	HASH_FIND_STR(set, id, k);
	return k != NULL;
}

static void forget_set(struct known **set)
{
	while (*set) {
		struct known *k = *set;

		HASH_DEL(*set, k);
		free(k);
	}
}

static int load_sandbox(const struct sandbox_row *row, void *arg)
{
	struct fleet *fleet = arg;
	struct sandbox *s;

	if (sandbox_load(fleet, row, &s) < 0) {
		log_error("sandbox.unreadable", "id='%s'", row->id);
		return 0;
	}
	fleet_attach(fleet, s);
	if (s->place != PLACE_ENDED)
		account_adopt(s);
	return 0;
}

static int load_exec(const struct exec_row *row, void *arg)
{
	struct adoption *a = arg;
	struct sandbox *s = fleet_find_id(a->fleet, row->sandbox_id);

	if (!s)
		return 0;
	if (exec_load(s, row) < 0)
		log_error("exec.unreadable", "id='%s'", row->id);
	else
		know(&a->execs, row->id, 0);
	return 0;
}

static int load_context(const struct context_row *row, void *arg)
{
	struct sandbox *s = fleet_find_id(arg, row->sandbox_id);

	if (s && sandbox_is_alive(s) && context_load(s, row) < 0)
		log_error("context.unreadable", "id='%s'", row->id);
	return 0;
}

/* A spool without a known exec, and a result without a sandbox, are leftovers of a removal. */
static void sweep_spools(struct adoption *a)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;

	(void)!dir_open(&dir, a->fleet->spool_fd, ".");
	while ((name = dir_next(&dir)))
		if (!id_is_valid(name, "ex"))
			results_sweep(a->fleet, dir.fd, name);
		else if (!is_known(a->execs, name))
			(void)unlinkat(dir.fd, name, 0);
	dir_tell(&dir, "kept output");
}

static void finish_now(struct loop *loop, void *arg)
{
	struct fleet *fleet = arg;
	struct adoption *a = fleet->adoption;
	loop_fn ready;
	void *ready_arg;

	if (!a || fleet->is_ready)
		return;
	ready = a->ready;
	ready_arg = a->arg;
	adoption_free(fleet);
	fleet->is_ready = true;
	pool_open(fleet->pool);
	log_info("fleet.ready", "sandboxes=%zu", fleet->n_alive);
	ready(loop, ready_arg);
}

static bool is_answered(const struct adoption *a)
{
	return a->has_probe && a->has_list && a->has_images && a->has_snapshots && a->has_volumes;
}

static void on_patience(struct loop *loop, void *arg)
{
	struct adoption *a = arg;

	if (is_answered(a))
		finish_now(loop, a->fleet);
}

static void finish_if_done(struct adoption *a)
{
	if (is_answered(a) && a->rejoining == 0)
		loop_defer(a->fleet->config.loop, finish_now, a->fleet);
}

void adoption_on_rejoined(struct sandbox *s)
{
	struct adoption *a = s->fleet->adoption;

	if (!s->is_rejoining)
		return;
	s->is_rejoining = false;
	if (!a)
		return;
	a->rejoining--;
	finish_if_done(a);
}

/* A first create is undone; a resume leaves the files as they were. */
static void settle_creating(struct sandbox *s, bool is_alive)
{
	const char *why = "the daemon stopped while creating it";
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE, 0, "%s", why);
	if (s->resumes == 0)
		s->is_kept = false;
	if (!is_alive && !s->is_persistent && !s->rolls_to[0]) {
		create_take_back(s, END_HOST_RESTART);
		sandbox_discard(s);
	} else if (s->resumes == 0) { /* its key, too, is free when nothing of it is left */
		sandbox_undo(s, END_HOST_RESTART, why, &err);
	} else {
		sandbox_end(s, END_HOST_RESTART, NULL, why);
	}
}

/* Whether the files of a sandbox that does not run are missing. */
static bool has_lost_files(const struct adoption *a, const struct sandbox *s)
{
	return s->is_kept && !s->rolls_to[0] && !s->outlive.origin[0] &&
	       !is_known(a->kept, s->id) && !is_known(a->alive, s->id);
}

static void rejoin(struct adoption *a, struct sandbox *s)
{
	s->is_rejoining = true;
	a->rejoining++;
	parts_adopt(s);
}

static void settle(struct adoption *a, struct sandbox *s, bool is_alive)
{
	if (s->state != SANDBOX_CREATING && has_lost_files(a, s)) {
		log_error("sandbox.files_lost", "id=%s", s->id);
		s->is_kept = false;
		if (!sandbox_is_alive(s)) {
			fleet_on_ended(s->fleet, s);
			account_on_files_lost(s);
			sandbox_note(s);
		}
	}
	if (s->paused_in[0] && sandbox_is_alive(s) && s->state != SANDBOX_STOPPING) {
		pause_adopt(s, is_alive);
		return;
	}
	switch (s->state) {
	case SANDBOX_CREATING:
		settle_creating(s, is_alive);
		return;
	case SANDBOX_RUNNING:
	case SANDBOX_PAUSING:
	case SANDBOX_PAUSED:
		if (is_alive) {
			s->end.cause = END_NONE;
			rejoin(a, s);
			if (s->ends_with_caller)
				sandbox_end_orphan(s);
		} else if (s->end.cause == END_HOST_RESTART) {
			sandbox_close_books(s, END_HOST_RESTART, json_incref(s->end.detail),
			                    "the machine was started anew");
		} else {
			sandbox_close_books(s, END_GUEST_CRASH, NULL,
			                    "it ended while the daemon was away");
		}
		return;
	case SANDBOX_STOPPING:
		if (is_alive && results_are_due(s))
			rejoin(a, s);
		sandbox_end_again(s);
		return;
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
	case SANDBOX_STATE_COUNT:
		return;
	}
}

static void on_stray_gone(const struct msg_reply *reply, void *arg)
{
	(void)arg;
	if (reply->err.code != ERR_NONE)
		log_error("sandbox.orphaned", "id='%s' error='%s'", reply->id, reply->err.message);
}

/* For a sandbox without a row here. Files of another store's sandbox are not removed. */
static void delete_stray(struct fleet *fleet, const struct known *k)
{
	bool is_ours = k->keeper == 0 || k->keeper == store_number(fleet->config.store);
	struct msg_request req = {.op = is_ours ? MSG_DELETE : MSG_STOP};
	struct err err;

	log_warn("sandbox.orphaned", "id='%s' removed=%d", k->id, is_ours);
	(void)snprintf(req.id, sizeof(req.id), "%s", k->id);
	if (broker_client_ask(fleet->broker, &req, on_stray_gone, fleet, NULL, &err) < 0)
		log_error("sandbox.orphaned", "id='%s' error='%s'", k->id, err.message);
}

static void settle_strays(struct fleet *fleet, const struct known *set)
{
	for (const struct known *k = set; k; k = k->hh.next) {
		const struct sandbox *s = fleet_find_id(fleet, k->id);

		if (!s || s->place == PLACE_ENDED)
			delete_stray(fleet, k);
	}
}

static void check_keepers(const struct adoption *a)
{
	for (const struct known *k = a->kept; k; k = k->hh.next) {
		auto_free char *file = xasprintf("layers/%s/keeper", k->id);
		const struct sandbox *s = fleet_find_id(a->fleet, k->id);

		if (s && s->place != PLACE_ENDED)
			fleet_check_keeper(a->fleet, file, k->keeper);
	}
}

/* The store is new and does not know the living sandboxes: its old file was lost or moved away, and
 * they may still be wanted.
 */
static bool would_end_strangers(const struct adoption *a)
{
	const struct fleet_config *c = &a->fleet->config;

	if (!a->alive || !store_is_new(c->store) || c->is_sweeping)
		return false;
	log_error("fleet.unknown_sandboxes",
	          "sandboxes=%u message='they run, and the database is new' hint='put the old one "
	          "back, or end them with `cloche serve --sweep`'",
	          HASH_COUNT(a->alive));
	return true;
}

static void on_list_end(struct adoption *a)
{
	if (would_end_strangers(a)) {
		fleet_give_up(a->fleet);
		return;
	}
	list_for_each (&a->fleet->all, struct sandbox, s, link_all)
		settle(a, s, is_known(a->alive, s->id));
	check_keepers(a);
	settle_strays(a->fleet, a->alive);
	settle_strays(a->fleet, a->kept);
	account_settle_old(a->fleet);
	a->has_list = true;
	loop_timer_set_in(a->patience, PATIENCE_US);
	finish_if_done(a);
}

/* Without the broker's answer the start is given up: a wrong guess about who is alive would destroy
 * sandboxes. */
static bool is_blind(const struct adoption *a, const struct msg_reply *reply)
{
	if (reply->err.code == ERR_NONE)
		return false;
	log_error("fleet.list_failed", "error='%s'", reply->err.message);
	fleet_give_up(a->fleet);
	return true;
}

static void on_list(const struct msg_reply *reply, void *arg)
{
	struct adoption *a = arg;

	if (is_blind(a, reply))
		return;
	if (reply->id[0] == '\0') {
		on_list_end(a);
		return;
	}
	know(reply->list.is_alive ? &a->alive : &a->kept, reply->id, reply->list.keeper);
}

static void on_probe(const struct msg_reply *reply, void *arg)
{
	struct adoption *a = arg;

	if (is_blind(a, reply))
		return;
	a->fleet->probe = *reply;
	fleet_on_disk(&reply->probe.disk, a->fleet);
	a->has_probe = true;
	finish_if_done(a);
}

static void on_images(const struct msg_reply *reply, void *arg)
{
	struct adoption *a = arg;

	if (is_blind(a, reply))
		return;
	if (!digest_is_zero(&reply->image.digest)) {
		image_add(a->fleet, &reply->image);
		return;
	}
	a->has_images = true;
	finish_if_done(a);
}

/* Asked for after the list, when it is known which sandbox uses which snapshot. */
static void on_snapshots(const struct msg_reply *reply, void *arg)
{
	struct adoption *a = arg;

	if (is_blind(a, reply))
		return;
	if (reply->id[0] != '\0') {
		snapshot_found(a->fleet, &reply->snapshot);
		return;
	}
	snapshots_settle(a->fleet);
	a->has_snapshots = true;
	finish_if_done(a);
}

static void on_volumes(const struct msg_reply *reply, void *arg)
{
	struct adoption *a = arg;

	if (is_blind(a, reply))
		return;
	if (reply->id[0] != '\0') {
		volume_found(a->fleet, &reply->volume);
		return;
	}
	volumes_settle(a->fleet);
	a->has_volumes = true;
	finish_if_done(a);
}

int adoption_start(struct fleet *fleet, loop_fn ready, void *arg, struct err *err)
{
	struct adoption *a = xnew0(struct adoption);
	struct store *store = fleet->config.store;
	int r;

	*a = (struct adoption){.fleet = fleet, .ready = ready, .arg = arg};
	a->patience = loop_timer_new(fleet->config.loop, on_patience, a);
	fleet->adoption = a;
	r = store_each_sandbox(store, load_sandbox, fleet, err);
	if (r == 0)
		r = store_each_exec(store, load_exec, a, err);
	if (r == 0)
		r = store_each_context(store, load_context, fleet, err);
	if (r < 0)
		return r;
	network_seal_rows(fleet);
	sweep_spools(a);
	crash_counters_sweep(fleet->crash_counters);
	r = broker_client_ask(fleet->broker, &(struct msg_request){.op = MSG_PROBE}, on_probe, a,
	                      NULL, err);
	if (r == 0)
		r = broker_client_ask(fleet->broker, &(struct msg_request){.op = MSG_IMAGES},
		                      on_images, a, NULL, err);
	if (r == 0)
		r = broker_client_ask(fleet->broker, &(struct msg_request){.op = MSG_LIST}, on_list,
		                      a, NULL, err);
	if (r == 0)
		r = broker_client_ask(fleet->broker, &(struct msg_request){.op = MSG_SNAPSHOTS},
		                      on_snapshots, a, NULL, err);
	if (r == 0)
		r = broker_client_ask(fleet->broker, &(struct msg_request){.op = MSG_VOLUMES},
		                      on_volumes, a, NULL, err);
	return r;
}

void adoption_free(struct fleet *fleet)
{
	struct adoption *a = take_ptr(fleet->adoption);

	if (!a)
		return;
	forget_set(&a->alive);
	forget_set(&a->kept);
	forget_set(&a->execs);
	loop_timer_free(a->patience);
	free(a);
}
