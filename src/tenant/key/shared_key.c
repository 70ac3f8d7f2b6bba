// SPDX-License-Identifier: Apache-2.0
#include "tenant/shared_key.h"

#include "base/clock.h"
#include "base/parse.h"
#include "tenant/key/key_private.h"

#include <stdio.h>
#include <string.h>

#define NAME_KEPT ((size_t)40) /* of a project that makes way */

int keyring_draft(struct keyring *ring, const char *project_id, const char *name,
                  enum key_scope scope, uint64_t expires_us, char secret[48], struct key_draft *ret,
                  struct err *err)
{
	int r = key_check_name(name, err);

	if (r == 0 && !key_project_find(ring, project_id, NULL))
		r = err_set(err, ERR_NOT_FOUND, 0, "no project '%s'", project_id);
	if (r == 0)
		r = key_make_room(ring, project_id, err);
	if (r < 0)
		return r;
	*ret = (struct key_draft){
		.scope = scope, .created_us = clock_wall_us(), .expires_us = expires_us};
	id_make(ret->id, "key");
	(void)snprintf(ret->project_id, sizeof(ret->project_id), "%s", project_id);
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	key_draw_secret(secret, ret->hash);
	return 0;
}

int keyring_take_key(struct keyring *ring, const struct key_draft *key, struct err *err)
{
	struct key_row row = {.id = key->id,
	                      .project_id = key->project_id,
	                      .name = key->name,
	                      .scope = key->scope,
	                      .created_us = key->created_us,
	                      .expires_us = key->expires_us};
	const struct key *known = key_find_known(ring, key->id);
	struct key *same;
	int r;

	if (known)
		return known->revoked_us != 0;
	if (!key_project_find(ring, key->project_id, NULL))
		return err_set(err, ERR_NOT_FOUND, 0, "no project '%s'", key->project_id);
	memcpy(row.hash, key->hash, sizeof(row.hash));
	r = key_count_check(ring, err);
	same = key_find_hash(ring, key->hash);
	if (r == 0 && same) /* such as a first key that was given to all nodes */
		r = key_forget(ring, same, err);
	if (r == 0)
		r = store_put_key(ring->store, &row, err);
	if (r == 0)
		(void)key_attach_row(ring, &row);
	return r;
}

int keyring_drop_key(struct keyring *ring, const char *id, struct err *err)
{
	struct key *known = key_find_known(ring, id);

	return known ? key_set_revoked(ring, known, err) : 0;
}

int keyring_rename_project(struct keyring *ring, const char *id, const char *name, struct err *err)
{
	struct project *p = key_project_find(ring, id, NULL);
	struct project_row row = {.id = id, .name = name};
	int r;

	if (!p)
		return err_set(err, ERR_NOT_FOUND, 0, "no project '%.64s'", id);
	row.created_us = p->created_us;
	r = store_put_project(ring->store, &row, err);
	if (r == 0)
		project_set_name(ring, p, name);
	return r;
}

static int make_way(struct keyring *ring, const struct project *p, const char *suffix,
                    struct err *err)
{
	char name[140];
	bool is_cut;
	const int len = (int)utf8_valid_prefix(p->name, MIN(strlen(p->name), NAME_KEPT), &is_cut);

	(void)snprintf(name, sizeof(name), "%.*s-%s", len, p->name, suffix);
	for (unsigned i = 2; key_project_find(ring, NULL, name); i++)
		(void)snprintf(name, sizeof(name), "%.*s-%s-%u", len, p->name, suffix, i);
	return keyring_rename_project(ring, p->id, name, err);
}

/* Who comes by the unix socket is of the project "default", whichever that is. */
static void set_root(struct keyring *ring)
{
	const struct project *p = key_project_find(ring, NULL, "default");

	if (p)
		(void)snprintf(ring->root.project_id, sizeof(ring->root.project_id), "%s", p->id);
}

int keyring_take_project(struct keyring *ring, const char *id, const char *name,
                         uint64_t created_us, const char *suffix, struct err *err)
{
	const struct project *same = key_project_find(ring, id, NULL);
	const struct project *namesake = key_project_find(ring, NULL, name);
	struct project_row row = {.id = id, .name = name, .created_us = created_us};
	int is_renamed = namesake && namesake != same;
	int r = key_check_name(name, err);

	if (r < 0 || (same && same == namesake))
		return r;
	if (is_renamed)
		r = make_way(ring, namesake, suffix, err);
	if (r == 0 && same)
		r = keyring_rename_project(ring, id, name, err);
	else if (r == 0)
		r = store_put_project(ring->store, &row, err);
	if (r == 0 && !same)
		project_attach_row(ring, &row);
	set_root(ring);
	return r < 0 ? r : is_renamed;
}

bool keyring_is_unused(struct keyring *ring, const char *project_id)
{
	list_for_each (&ring->keys, struct key, key, link)
		if (strcmp(key->project_id, project_id) == 0 && (key->used_us != 0 || key->person))
			return false;
	return true;
}

int keyring_each_shared(struct keyring *ring, int (*fn)(const struct shared_row *row, void *arg),
                        void *arg)
{
	int r = 0;

	list_for_each (&ring->projects, struct project, p, link) {
		if (r == 0 && !p->is_removed)
			r = fn(&(struct shared_row){.is_project = true,
			                            .id = p->id,
			                            .project_id = p->id,
			                            .name = p->name,
			                            .created_us = p->created_us},
			       arg);
	}
	list_for_each (&ring->keys, struct key, key, link) {
		if (r == 0 && !key->person && key_is_good(key))
			r = fn(&(struct shared_row){.id = key->id,
			                            .project_id = key->project_id,
			                            .name = key->name,
			                            .hash = key->hash,
			                            .scope = key->scope,
			                            .created_us = key->created_us,
			                            .expires_us = key->expires_us},
			       arg);
	}
	return r;
}
