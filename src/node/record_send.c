// SPDX-License-Identifier: Apache-2.0
/*
 * Records that all nodes of the cluster are to have. The database is asked first, so that all
 * agree; then the record goes into this node's own tables, before anybody hears that it is there.
 */
#include "node/records_private.h"

#include <stdio.h>
#include <string.h>

struct record_call { /* a record that is said */
	struct node *node;
	node_done_fn fn;
	void *arg;
	char kind[8], id[ID_SIZE], name[68];
	struct key_draft key;
	bool is_gone, is_key, is_project;
	uint64_t created_us;
};

void record_hash_hex(const unsigned char hash[32], char ret[DIGEST_HEX])
{
	struct digest digest;

	memcpy(digest.bytes, hash, sizeof(digest.bytes));
	digest_to_hex(&digest, ret);
}

json_t *record_of_key(const char *name, enum key_scope scope, uint64_t created_us,
                      uint64_t expires_us)
{
	return json_pack("{ss si sI sI}", "name", name, "scope", (int)scope, "created_us",
	                 (json_int_t)created_us, "expires_us", (json_int_t)expires_us);
}

json_t *record_of_project(const char *name, uint64_t created_us)
{
	return json_pack("{ss sI}", "name", name, "created_us", (json_int_t)created_us);
}

static int refuse_put(const char *result, const struct record_call *p, struct err *err)
{
	if (strcmp(result, "taken") == 0) {
		(void)err_set(err, ERR_CONFLICT, 0,
		              "name: a %s named '%s' exists already, on another node", p->kind,
		              p->name[0] ? p->name : p->id);
		return err_hint(err, "use it, or take another name");
	}
	if (strcmp(result, "gone") == 0 || strcmp(result, "no_project") == 0)
		return err_set(err, ERR_NOT_FOUND, 0, "the %s was removed",
		               strcmp(result, "gone") == 0 ? p->kind : "project");
	if (strcmp(result, "in_use") == 0)
		return err_set(err, ERR_CONFLICT, 0,
		               "the project still has sandboxes on other nodes");
	if (strcmp(result, "full") == 0)
		return err_set(err, ERR_LIMIT, 0,
		               "the cluster has as many projects, keys and quotas as it can have");
	return node_refuse(err, "this node has just rejoined the cluster");
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
		records_note_shared(p->node->records, p->kind, p->id);
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

	record_hash_hex(key->hash, hash);
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
