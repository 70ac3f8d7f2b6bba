// SPDX-License-Identifier: Apache-2.0
/*
 * Projects, keys and quotas of the whole cluster. The database numbers each change; this node asks
 * for those behind the last one that it has, whenever a beat's answer says that there are more, and
 * writes them into its own tables. It begins with all of them at each start:
 *
 *	all that the database has --> what this node has besides is said to it --> changes
 *
 * So a node that joins brings its projects and keys along, and a database that has lost some hears
 * of them again. A key that is revoked on one side is revoked on both.
 *
 * A key that nobody knows here may have been made elsewhere a moment ago. Then the changes are
 * asked for at once; requests that wait for the same answer wait together.
 */
#include "base/clock.h"
#include "base/digest.h"
#include "base/list.h"
#include "base/log.h"
#include "base/units.h"
#include "node/node_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#define STALE_MAX_US (300 * SECOND_US)
#define LOOK_US      SECOND_US
#define ASK_US       (SECOND_US / 5) /* between two questions for unknown keys */
#define ASKED_US     (2 * SECOND_US) /* how long the answer "unknown" holds */
#define WAITERS_MAX  256
#define ASKED_SLOTS  1024
#define NUMBER_MAX   INT64_C(1000000000000000)

struct shared { /* what the database has */
	char name[ID_SIZE + 8];
	UT_hash_handle hh;
};

struct waiter {
	struct list link;
	void (*fn)(void *arg);
	void *arg;
	uint64_t print, since_us;
};

struct records {
	struct node *node;
	struct loop_timer *look, *ask;
	uint64_t applied;
	uint64_t fresh_us; /* when it had all changes last */
	bool is_whole;     /* since the start, all were had once */
	bool is_asking;
	bool is_saying, has_said; /* what the database has not */
	bool has_default;
	struct shared *shared;
	struct list waiters;
	size_t n_waiters;
	bool is_answered;  /* those that were woken last have their answer */
	uint64_t asked_us; /* when changes were asked for last */
	struct {
		uint64_t print, us; /* of a digest; when it was known to be unknown */
	} unknown[ASKED_SLOTS];
};

static void ask_changes(struct records *r);
static void say_more(struct records *r);

static void to_hex(const unsigned char hash[32], char ret[DIGEST_HEX])
{
	struct digest digest;

	memcpy(digest.bytes, hash, sizeof(digest.bytes));
	digest_to_hex(&digest, ret);
}

static void shared_name(char ret[ID_SIZE + 8], const char *kind, const char *id)
{
	(void)snprintf(ret, ID_SIZE + 8, "%.7s/%s", kind, id);
}

static bool is_shared(const struct records *r, const char *kind, const char *id)
{
	char name[ID_SIZE + 8];
	struct shared *s = NULL;

	shared_name(name, kind, id);
	HASH_FIND_STR(r->shared, name, s);
	return s != NULL;
}

static void note_shared(struct records *r, const char *kind, const char *id)
{
	struct shared *s;

	if (is_shared(r, kind, id))
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

/* Whether the database's answers can be had. */
static bool is_held(const struct records *r)
{
	return node_is_in(r->node) && node_state(r->node) == FENCE_HELD;
}

static bool is_current(const struct records *r)
{
	return is_held(r) && r->is_whole && r->applied >= r->node->word.change;
}

static void wake_all(struct records *r, bool is_answered)
{
	struct list waiting;
	uint64_t now = clock_steady_us();
	struct waiter *w;

	list_init(&waiting);
	list_for_each (&r->waiters, struct waiter, one, link) {
		if (is_answered && one->since_us > r->asked_us)
			continue; /* its key may have been made since the question */
		list_remove(&one->link);
		list_append(&waiting, &one->link);
		r->n_waiters--;
		if (is_answered) {
			r->unknown[one->print % ASKED_SLOTS].print = one->print;
			r->unknown[one->print % ASKED_SLOTS].us = now;
		}
	}
	if (r->n_waiters > 0)
		loop_timer_set(r->ask, r->asked_us + ASK_US);
	r->is_answered = is_answered;
	while ((w = list_first(&waiting, struct waiter, link))) {
		list_remove(&w->link);
		w->fn(w->arg);
		free(w);
	}
}

static const char *text_of(const json_t *object, const char *name, size_t max)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text && text[0] && strlen(text) <= max ? text : NULL;
}

static uint64_t time_of(const json_t *object, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(object, name));

	return n < 0 || n > NUMBER_MAX * 100 ? 0 : (uint64_t)n;
}

static int read_key(const json_t *one, const char *id, const char *project_id,
                    struct key_draft *ret)
{
	const json_t *record = json_object_get(one, "record");
	const char *hash = text_of(one, "unique", 64), *name = text_of(record, "name", 64);
	json_int_t scope = json_integer_value(json_object_get(record, "scope"));

	struct digest digest;

	if (!hash || digest_parse(hash, &digest) < 0 || !name || scope < SCOPE_READ ||
	    scope > SCOPE_ADMIN)
		return -EPROTO;
	memcpy(ret->hash, digest.bytes, sizeof(ret->hash));
	(void)snprintf(ret->id, sizeof(ret->id), "%s", id);
	(void)snprintf(ret->project_id, sizeof(ret->project_id), "%s", project_id);
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	ret->scope = (enum key_scope)scope;
	ret->created_us = time_of(record, "created_us");
	ret->expires_us = time_of(record, "expires_us");
	return 0;
}

static void on_revoked_again(const struct err *err, void *arg)
{
	(void)arg;
	if (err)
		log_warn("cluster.revocation_waits", "error='%s'", err->message);
}

/* This node knows that it is revoked: the cluster has forgotten. */
static void revoke_again(struct records *r, const struct key_draft *key)
{
	log_warn("cluster.key_revoked_again", "key=%s", key->id);
	node_revoke_key(r->node, key->project_id, key->id, on_revoked_again, r);
}

static int apply_key(struct records *r, const json_t *one, const char *id, const char *project_id,
                     bool is_gone, struct err *err)
{
	struct key_draft key = {0};
	int result;

	if (is_gone)
		return keyring_drop_key(r->node->config.keyring, id, err);
	if (strncmp(id, "key_", 4) != 0 || read_key(one, id, project_id, &key) < 0)
		return err_set(err, ERR_BAD_REQUEST, 0, "a key has another shape");
	result = keyring_take_key(r->node->config.keyring, &key, err);
	if (result == 1)
		revoke_again(r, &key);
	return MIN(result, 0);
}

static int apply_project(struct records *r, const json_t *one, const char *id, bool is_gone,
                         struct err *err)
{
	struct keyring *ring = r->node->config.keyring;
	const json_t *record = json_object_get(one, "record");
	const char *name = text_of(record, "name", 64), *known = keyring_project_name(ring, id);
	char suffix[16];
	int result;

	if (is_gone)
		return known && strcmp(known, "default") != 0
		               ? keyring_remove_project(ring, id, err)
		               : 0;
	if (strncmp(id, "prj_", 4) != 0 || !name)
		return err_set(err, ERR_BAD_REQUEST, 0, "a project has another shape");
	(void)snprintf(suffix, sizeof(suffix), "%u", node_number(r->node));
	result = keyring_take_project(ring, id, name, time_of(record, "created_us"), suffix, err);
	if (result == 1)
		log_warn("cluster.project_renamed",
		         "name='%s' suffix='-%s' message='this node had a project of a name that "
		         "the cluster has, too: it keeps what it has, under another name'",
		         name, suffix);
	r->has_default |= strcmp(name, "default") == 0;
	return MIN(result, 0);
}

static int apply_quota(struct records *r, const json_t *one, const char *id, const char *project_id,
                       struct err *err)
{
	const bool is_key = strncmp(id, "key_", 4) == 0;
	const struct quota_owner owner = {project_id, is_key ? id : ""};
	struct quota_setting setting;
	int result;

	if (!r->node->config.quota || (!is_key && strcmp(id, project_id) != 0))
		return 0;
	result = quota_setting_read(json_object_get(one, "record"), &setting, err);
	return result < 0 ? result : quota_set(r->node->config.quota, &owner, &setting, err);
}

/* One that cannot be taken is told and passed over: the others hold all the same. */
static void apply(struct records *r, const json_t *one)
{
	const char *kind = text_of(one, "kind", 7), *id = text_of(one, "id", ID_SIZE - 1);
	const char *project_id = text_of(one, "project_id", ID_SIZE - 1);
	const bool is_gone = json_is_true(json_object_get(one, "is_gone"));
	struct err err = {0};
	int result = -EPROTO;

	if (!kind || !id || !project_id || !json_is_object(json_object_get(one, "record")))
		(void)err_set(&err, ERR_BAD_REQUEST, 0, "it has another shape");
	else if (strcmp(kind, "key") == 0)
		result = apply_key(r, one, id, project_id, is_gone, &err);
	else if (strcmp(kind, "project") == 0)
		result = apply_project(r, one, id, is_gone, &err);
	else if (strcmp(kind, "quota") == 0 && !is_gone)
		result = apply_quota(r, one, id, project_id, &err);
	else
		result = 0; /* of a newer cloche */
	if (kind && id)
		note_shared(r, kind, id);
	if (result < 0)
		log_warn("cluster.record_refused", "kind='%s' id='%s' error='%s'", kind ? kind : "",
		         id ? id : "", err.message);
}

static void begin_again(struct records *r)
{
	r->applied = 0;
	r->is_whole = r->has_said = r->has_default = false;
	forget_shared(r);
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
		wake_all(r, false);
		return;
	}
	if ((uint64_t)newest < r->applied) {
		log_warn("cluster.database_rewound",
		         "message='it knows of fewer changes than this node: all is compared'");
		begin_again(r);
		wake_all(r, false);
		return;
	}
	json_array_foreach(all, i, one)
	{
		apply(r, one);
	}
	if (number < newest && (uint64_t)number > r->applied) {
		r->applied = (uint64_t)number;
		ask_changes(r);
		return;
	}
	r->applied = (uint64_t)number;
	r->is_whole = true;
	r->fresh_us = clock_steady_us();
	wake_all(r, true);
	say_more(r);
}

static void ask_changes(struct records *r)
{
	auto_json json_t *call = NULL;

	if (r->is_asking || !is_held(r))
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

static json_t *record_of_key(const char *name, enum key_scope scope, uint64_t created_us,
                             uint64_t expires_us)
{
	return json_pack("{ss si sI sI}", "name", name, "scope", (int)scope, "created_us",
	                 (json_int_t)created_us, "expires_us", (json_int_t)expires_us);
}

static json_t *record_of_project(const char *name, uint64_t created_us)
{
	return json_pack("{ss sI}", "name", name, "created_us", (json_int_t)created_us);
}

static int say_one(const struct shared_row *row, void *arg)
{
	struct records *r = arg;
	const char *kind = row->is_project ? "project" : "key";
	auto_json json_t *record = NULL;
	char hash[DIGEST_HEX] = "";

	if (is_shared(r, kind, row->id))
		return 0;
	note_shared(r, kind, row->id); /* once, whatever is answered: else until the next start */
	if (row->hash)
		to_hex(row->hash, hash);
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
	if (!is_current(r) || r->is_saying || r->has_said ||
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
	if (is_current(r))
		r->fresh_us = clock_steady_us();
	else
		ask_changes(r);
	say_more(r);
}

void records_on_word(struct records *r)
{
	if (!node_is_in(r->node))
		return;
	if (r->fresh_us == 0)
		r->fresh_us = clock_steady_us(); /* the time of what was kept begins here */
	loop_timer_set_in(r->look, LOOK_US);
	if (!is_held(r))
		wake_all(r, false);
	else if (!is_current(r) || r->node->word.change < r->applied) /* it may have lost some */
		ask_changes(r);
	say_more(r);
}

int node_check_keys(const struct node *n, struct err *err)
{
	const uint64_t max =
		n->config.keys_stale_max_us ? n->config.keys_stale_max_us : STALE_MAX_US;
	const struct records *r = n->records;

	if (is_current(r) || r->fresh_us == 0 || clock_steady_us() - r->fresh_us <= max)
		return 0;
	return node_refuse(err, "this node has not heard for too long which keys were revoked");
}

static void on_ask(struct loop *loop, void *arg)
{
	struct records *r = arg;

	(void)loop;
	if (r->n_waiters == 0)
		return;
	if (!is_held(r))
		wake_all(r, false);
	else if (r->is_asking)
		loop_timer_set_in(r->ask, ASK_US);
	else
		ask_changes(r);
}

enum node_ask node_knows_unknown(const struct node *n)
{
	return n->records->is_answered ? NODE_ASK_UNKNOWN : NODE_ASK_CUT;
}

enum node_ask node_ask_key(struct node *n, const char *secret, void (*fn)(void *arg), void *arg)
{
	struct records *r = n->records;
	unsigned char hash[32];
	uint64_t now = clock_steady_us(), print, due_us;
	struct waiter *w;

	if (!key_hash_secret(secret, hash))
		return NODE_ASK_UNKNOWN;
	memcpy(&print, hash, sizeof(print));
	if (r->unknown[print % ASKED_SLOTS].print == print &&
	    now - r->unknown[print % ASKED_SLOTS].us < ASKED_US)
		return NODE_ASK_UNKNOWN;
	if (!is_held(r))
		return NODE_ASK_CUT;
	if (r->n_waiters >= WAITERS_MAX)
		return NODE_ASK_UNKNOWN;
	w = xnew0(struct waiter);
	*w = (struct waiter){.fn = fn, .arg = arg, .print = print, .since_us = now};
	list_init(&w->link);
	list_append(&r->waiters, &w->link);
	r->n_waiters++;
	due_us = MAX(now, r->asked_us + ASK_US);
	loop_timer_set(r->ask, due_us);
	return NODE_ASK_WAIT;
}

struct record_call { /* a record that is said */
	struct node *node;
	node_done_fn fn;
	void *arg;
	char kind[8], id[ID_SIZE], name[68];
	struct key_draft key;
	bool is_gone, is_key, is_project;
	uint64_t created_us;
};

static int refuse_put(const char *result, const struct record_call *p, struct err *err)
{
	if (strcmp(result, "taken") == 0)
		return err_set(err, ERR_CONFLICT, EEXIST, "the %s '%s'", p->kind,
		               p->name[0] ? p->name : p->id);
	if (strcmp(result, "gone") == 0 || strcmp(result, "no_project") == 0)
		return err_set(err, ERR_NOT_FOUND, 0, "the %s was removed",
		               strcmp(result, "gone") == 0 ? p->kind : "project");
	if (strcmp(result, "in_use") == 0)
		return err_set(err, ERR_CONFLICT, 0,
		               "the project still has sandboxes on other nodes");
	if (strcmp(result, "full") == 0)
		return err_set(err, ERR_LIMIT, 0,
		               "the cluster has as many projects, keys and quotas as it can have");
	return node_refuse(err, "this node has just joined anew");
}

/* Into this node's own tables, before anybody hears of it. */
static int keep(const struct record_call *p, struct err *err)
{
	struct keyring *ring = p->node->config.keyring;
	char suffix[16];

	(void)snprintf(suffix, sizeof(suffix), "%u", node_number(p->node));
	if (p->is_key && p->is_gone)
		return keyring_drop_key(ring, p->id, err);
	if (p->is_key && p->key.id[0])
		return MIN(keyring_take_key(ring, &p->key, err), 0);
	if (p->is_project && !p->is_gone && p->name[0])
		return MIN(keyring_take_project(ring, p->id, p->name, p->created_us, suffix, err),
		           0);
	return 0;
}

static void on_put(const json_t *answer, const struct err *failure, void *arg)
{
	auto_free struct record_call *p = arg;
	const char *result = node_result(answer);
	struct err err = {0};
	int r = 0;

	if (failure)
		err = *failure;
	r = failure ? -EIO : strcmp(result, "ok") == 0 ? 0 : refuse_put(result, p, &err);
	if (r == 0) {
		note_shared(p->node->records, p->kind, p->id);
		r = keep(p, &err);
	}
	p->fn(r < 0 ? &err : NULL, p->arg);
}

static struct record_call *new_call(struct node *n, const struct node_record *record,
                                    node_done_fn fn, void *arg)
{
	struct record_call *p = xnew0(struct record_call);

	p->node = n;
	p->fn = fn;
	p->arg = arg;
	p->is_gone = record->is_gone;
	p->is_key = strcmp(record->kind, "key") == 0;
	p->is_project = strcmp(record->kind, "project") == 0;
	(void)snprintf(p->kind, sizeof(p->kind), "%s", record->kind);
	(void)snprintf(p->id, sizeof(p->id), "%s", record->id);
	return p;
}

static void send_put(struct record_call *p, const struct node_record *record)
{
	auto_json json_t *call =
		json_pack("{ss ss ss ss ss* sO sb}", "call", "put_record", "kind", record->kind,
	                  "id", record->id, "project_id", record->project_id, "unique",
	                  record->unique, "record", record->record, "is_gone", record->is_gone);

	node_call(p->node, call, on_put, p);
}

void node_put_record(struct node *n, const struct node_record *record, node_done_fn fn, void *arg)
{
	send_put(new_call(n, record, fn, arg), record);
}

void node_put_key(struct node *n, const struct key_draft *key, node_done_fn fn, void *arg)
{
	auto_json json_t *json =
		record_of_key(key->name, key->scope, key->created_us, key->expires_us);
	char hash[DIGEST_HEX];
	const struct node_record record = {.kind = "key",
	                                   .id = key->id,
	                                   .project_id = key->project_id,
	                                   .unique = hash,
	                                   .record = json};
	struct record_call *p = new_call(n, &record, fn, arg);

	to_hex(key->hash, hash);
	p->key = *key;
	send_put(p, &record);
}

void node_put_project(struct node *n, const char *id, const char *name, uint64_t created_us,
                      node_done_fn fn, void *arg)
{
	auto_json json_t *json = record_of_project(name, created_us);
	const struct node_record record = {
		.kind = "project", .id = id, .project_id = id, .unique = name, .record = json};
	struct record_call *p = new_call(n, &record, fn, arg);

	(void)snprintf(p->name, sizeof(p->name), "%s", name);
	p->created_us = created_us;
	send_put(p, &record);
}

static void put_gone(struct node *n, const char *kind, const char *project_id, const char *id,
                     node_done_fn fn, void *arg)
{
	auto_json json_t *record = json_object();

	node_put_record(n,
	                &(struct node_record){.kind = kind,
	                                      .id = id,
	                                      .project_id = project_id,
	                                      .record = record,
	                                      .is_gone = true},
	                fn, arg);
}

void node_revoke_key(struct node *n, const char *project_id, const char *id, node_done_fn fn,
                     void *arg)
{
	put_gone(n, "key", project_id, id, fn, arg);
}

void node_remove_project(struct node *n, const char *id, node_done_fn fn, void *arg)
{
	put_gone(n, "project", id, id, fn, arg);
}

struct records *records_new(struct node *n)
{
	struct records *r = xnew0(struct records);

	r->node = n;
	list_init(&r->waiters);
	r->look = loop_timer_new(n->config.loop, on_look, r);
	r->ask = loop_timer_new(n->config.loop, on_ask, r);
	return r;
}

void records_free(struct records *r)
{
	struct waiter *w;

	forget_shared(r);
	while ((w = list_first(&r->waiters, struct waiter, link))) {
		list_remove(&w->link);
		free(w);
	}
	loop_timer_free(r->look);
	loop_timer_free(r->ask);
	free(r);
}
