// SPDX-License-Identifier: Apache-2.0
/*
 * One record of the cluster, written into this node's own tables: a key, a project, or the quota of
 * one of them. Records come from the database, and each is read as a stranger's. One that cannot be
 * taken is logged and passed over, because the others hold all the same.
 */
#include "base/log.h"
#include "node/records_private.h"

#include <stdio.h>
#include <string.h>

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

/* What a daemon makes for itself at its first start, and nobody has used, does not stay. */
static bool drop_unused(const struct node *n, const char *id)
{
	if (!n->unused_project || !n->sandboxes || !id || !keyring_is_unused(n->config.keyring, id))
		return false;
	n->unused_project(id, n->unused_project_arg);
	return !keyring_project_name(n->config.keyring, id);
}

static int apply_project(struct records *r, const json_t *one, const char *id, bool is_gone,
                         struct err *err)
{
	struct keyring *ring = r->node->config.keyring;
	const json_t *record = json_object_get(one, "record");
	const char *name = text_of(record, "name", 64), *known = keyring_project_name(ring, id);
	const char *before; /* who has the name here */
	char suffix[16];
	int result;

	if (is_gone)
		shared_images_drop_project(r, id);
	if (is_gone)
		sealed_records_forget_project(r, id);
	if (is_gone)
		return known && strcmp(known, "default") != 0
		               ? keyring_remove_project(ring, id, err)
		               : 0;
	if (strncmp(id, "prj_", 4) != 0 || !name)
		return err_set(err, ERR_BAD_REQUEST, 0, "a project has another shape");
	(void)snprintf(suffix, sizeof(suffix), "%u", node_number(r->node));
	before = keyring_find_project(ring, name);
	result = keyring_take_project(ring, id, name, time_of(record, "created_us"), suffix, err);
	if (result == 1 && !drop_unused(r->node, before))
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
void record_apply(struct records *r, const json_t *one)
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
	else if (strcmp(kind, "image") == 0)
		result = shared_images_apply(r, id, project_id, json_object_get(one, "record"),
		                             is_gone, &err);
	else if (strcmp(kind, "secret") == 0 || strcmp(kind, "webhook") == 0)
		result = sealed_records_apply(r, kind, id, project_id,
		                              json_object_get(one, "record"), is_gone, &err);
	else if (strcmp(kind, "quota") == 0 && !is_gone)
		result = apply_quota(r, one, id, project_id, &err);
	else
		result = 0; /* of a newer cloche */
	if (kind && id)
		records_note_shared(r, kind, id);
	if (result < 0)
		log_warn("cluster.record_refused", "kind='%s' id='%s' error='%s'", kind ? kind : "",
		         id ? id : "", err.message);
}
