// SPDX-License-Identifier: Apache-2.0
/*
 * Projects, keys and quotas of the whole cluster. The database numbers each change. When the answer
 * to a beat says that there are new ones, this node asks for those after its last, and writes them
 * into its own tables. Each start begins with all records:
 *
 *	read all from the database --> send what only this node has --> follow the changes
 *
 * So a node that joins brings its projects and keys along, and a database that has lost some gets
 * them again. A key that is revoked on one side is revoked on both.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "node/records_private.h"

#include <stdio.h>

#define STALE_MAX_US (300 * SECOND_US)
#define LOOK_US      SECOND_US

struct shared { /* what the database has */
	char name[ID_SIZE + 8];
	UT_hash_handle hh;
};

static void say_more(struct records *r);

static void shared_name(char ret[ID_SIZE + 8], const char *kind, const char *id)
{
	(void)snprintf(ret, ID_SIZE + 8, "%.7s/%s", kind, id);
}

bool records_is_shared(const struct records *r, const char *kind, const char *id)
{
	char name[ID_SIZE + 8];
	struct shared *s = NULL;

	shared_name(name, kind, id);
	HASH_FIND_STR(r->shared, name, s);
	return s != NULL;
}

void records_note_shared(struct records *r, const char *kind, const char *id)
{
	struct shared *s;

	if (records_is_shared(r, kind, id))
		return;
	s = xnew0(struct shared);
	shared_name(s->name, kind, id);
	HASH_ADD_STR(r->shared, name, s);
}

static void forget_shared(struct records *r)
{
	struct shared *s;

	while ((s = r->shared)) {
		HASH_DEL(r->shared, s);
		free(s);
	}
}

bool records_is_held(const struct records *r)
{
	return node_is_in(r->node) && node_state(r->node) == FENCE_HELD;
}

bool records_is_current(const struct records *r)
{
	return records_is_held(r) && r->is_whole && r->applied >= r->node->word.change;
}

void records_begin_again(struct records *r)
{
	r->applied = 0;
	r->is_whole = r->has_said = r->has_default = false;
	forget_shared(r);
	shared_images_forget(r);
	sealed_records_begin_again(r);
}

static void on_changes(const json_t *answer, const struct err *err, void *arg)
{
	struct records *r = arg;
	const json_t *all = json_object_get(answer, "records"), *one;
	json_int_t number = json_integer_value(json_object_get(answer, "number"));
	json_int_t newest = json_integer_value(json_object_get(answer, "newest"));
	size_t i;

	r->is_asking = false;
	if (err || !json_is_array(all) || number < 0 || newest < number || newest > NUMBER_MAX) {
		log_warn("cluster.changes_not_had", "error='%s'",
		         err ? err->message : "the answer has another shape");
		records_wake_askers(r, false);
		return;
	}
	if ((uint64_t)newest < r->applied) {
		log_warn("cluster.database_rewound",
		         "message='it knows of fewer changes than this node: all is compared'");
		records_begin_again(r);
		records_wake_askers(r, false);
		return;
	}
	json_array_foreach(all, i, one)
	{
		record_apply(r, one);
	}
	if (number < newest && (uint64_t)number > r->applied) {
		r->applied = (uint64_t)number;
		records_ask_changes(r);
		return;
	}
	r->applied = (uint64_t)number;
	r->is_whole = true;
	r->fresh_us = clock_steady_us();
	r->answered_us = r->asked_us;
	records_wake_askers(r, true);
	shared_images_look(r);
	say_more(r);
	sealed_records_say(r);
}

void records_ask_changes(struct records *r)
{
	auto_json json_t *call = NULL;

	if (r->is_asking || !records_is_held(r))
		return;
	call = json_pack("{ss sI}", "call", "changed", "after", (json_int_t)r->applied);
	r->is_asking = true;
	r->asked_us = clock_steady_us();
	node_call(r->node, call, on_changes, r);
}

/* What this node has and the database has not. */

static void on_said(const struct err *err, void *arg)
{
	struct records *r = arg;

	r->is_saying = false;
	if (!err)
		say_more(r);
	else
		log_warn("cluster.record_not_taken", "error='%s'", err->message);
}

static int say_one(const struct shared_row *row, void *arg)
{
	struct records *r = arg;
	const char *kind = row->is_project ? "project" : "key";
	auto_json json_t *record = NULL;
	char hash[DIGEST_HEX] = "";

	if (records_is_shared(r, kind, row->id))
		return 0;
	records_note_shared(r, kind,
	                    row->id); /* once, whatever is answered: else until the next start */
	if (row->hash)
		record_hash_hex(row->hash, hash);
	record = row->is_project
	                 ? record_of_project(row->name, row->created_us)
	                 : record_of_key(row->name, row->scope, row->created_us, row->expires_us);
	r->is_saying = true;
	node_put_record(r->node,
	                &(struct node_record){.kind = kind,
	                                      .id = row->id,
	                                      .project_id = row->project_id,
	                                      .unique = row->is_project ? row->name : hash,
	                                      .record = record},
	                on_said, r);
	return -ECANCELED; /* one after the other */
}

/* The first node brings the project "default"; others wait for it. */
static void say_more(struct records *r)
{
	if (!records_is_current(r) || r->is_saying || r->has_said ||
	    (!r->has_default && node_number(r->node) != 1))
		return;
	if (keyring_each_shared(r->node->config.keyring, say_one, r) == 0) {
		r->has_said = true;
		log_info("cluster.records_shared", "records=%u", HASH_COUNT(r->shared));
	}
}

static void on_look(struct loop *loop, void *arg)
{
	struct records *r = arg;

	(void)loop;
	loop_timer_set_in(r->look, LOOK_US);
	if (records_is_current(r))
		r->fresh_us = clock_steady_us();
	else
		records_ask_changes(r);
	say_more(r);
	if (sealed_records_look(r)) {
		records_begin_again(r);
		records_ask_changes(r);
	}
	sealed_records_say(r);
}

void records_on_word(struct records *r)
{
	if (!node_is_in(r->node))
		return;
	if (r->n_compares != r->node->word.n_compares ||
	    (r->epoch && r->epoch != r->node->word.epoch))
		records_begin_again(r);
	r->n_compares = r->node->word.n_compares;
	r->epoch = r->node->word.epoch;
	if (r->fresh_us == 0)
		r->fresh_us = clock_steady_us(); /* the time of what was kept begins here */
	if (!r->is_looking)
		loop_timer_set_in(r->look, LOOK_US);
	r->is_looking = true;
	sealed_records_want_key(r);
	if (!records_is_held(r))
		records_wake_askers(r, false);
	else if (!records_is_current(r) ||
	         r->node->word.change < r->applied) /* it may have lost some */
		records_ask_changes(r);
	else
		shared_images_look(r); /* what could not be told is due now */
	say_more(r);
}

int node_check_keys(const struct node *n, struct err *err)
{
	const uint64_t max =
		n->config.keys_stale_max_us ? n->config.keys_stale_max_us : STALE_MAX_US;
	const struct records *r = n->records;

	if (records_is_current(r) || r->fresh_us == 0 || clock_steady_us() - r->fresh_us <= max)
		return 0;
	return node_refuse(err, "this node has not heard for too long which keys were revoked");
}

struct records *records_new(struct node *n)
{
	struct records *r = xnew0(struct records);

	r->node = n;
	r->look = loop_timer_new(n->config.loop, on_look, r);
	unknown_keys_init(r);
	r->images = shared_images_new();
	r->sealed = sealed_records_new(n);
	return r;
}

void records_free(struct records *r)
{
	forget_shared(r);
	shared_images_free(r);
	sealed_records_free(r->sealed);
	unknown_keys_done(r);
	loop_timer_free(r->look);
	free(r);
}
