// SPDX-License-Identifier: Apache-2.0
/*
 * Projects are few and needed at every request, so all of them are in memory; each change is also
 * written to the store. One that was removed leaves the tables at once but is not freed before the
 * ring, because a running request may still hold its id. There is always one called "default".
 */
#include "base/clock.h"
#include "store/tables/keys.h"
#include "tenant/key/key_private.h"
#include "tenant/shared_key.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define PROJECTS_MAX    1000
#define DEFAULT_PROJECT "default"

static void attach_project(struct keyring *ring, struct project *p)
{
	list_append(&ring->projects, &p->link);
	HASH_ADD_KEYPTR(by_id, ring->projects_by_id, p->id, strlen(p->id), p);
	HASH_ADD_KEYPTR(by_name, ring->projects_by_name, p->name, strlen(p->name), p);
}

static int load_project(const struct project_row *row, void *arg)
{
	project_attach_row(arg, row);
	return 0;
}

void project_attach_row(struct keyring *ring, const struct project_row *row)
{
	struct project *p = xnew0(struct project);

	(void)snprintf(p->id, sizeof(p->id), "%s", row->id);
	p->name = xstrdup(row->name);
	p->created_us = row->created_us;
	attach_project(ring, p);
}

int projects_load(struct keyring *ring, struct err *err)
{
	int r = store_each_project(ring->store, load_project, ring, err);
	const char *id;

	if (r == 0 && !key_project_find(ring, NULL, DEFAULT_PROJECT))
		r = keyring_add_project(ring, DEFAULT_PROJECT, &id, err);
	if (r == 0)
		(void)snprintf(ring->root.project_id, sizeof(ring->root.project_id), "%s",
		               key_project_find(ring, NULL, DEFAULT_PROJECT)->id);
	return MIN(r, 0);
}

void projects_free(struct keyring *ring)
{
	HASH_CLEAR(by_id, ring->projects_by_id);
	HASH_CLEAR(by_name, ring->projects_by_name);
	list_for_each (&ring->projects, struct project, p, link) {
		free(p->name);
		free(p);
	}
}

struct project *key_project_find(struct keyring *ring, const char *id, const char *name)
{
	struct project *p = NULL;

	if (id)
		HASH_FIND(by_id, ring->projects_by_id, id, strlen(id), p);
	if (!p && name)
		HASH_FIND(by_name, ring->projects_by_name, name, strlen(name), p);
	return p;
}

void project_set_name(struct keyring *ring, struct project *p, const char *name)
{
	HASH_DELETE(by_name, ring->projects_by_name, p);
	free(p->name);
	p->name = xstrdup(name);
	HASH_ADD_KEYPTR(by_name, ring->projects_by_name, p->name, strlen(p->name), p);
}

int keyring_check_project(struct keyring *ring, const char *name, struct err *err)
{
	int r = key_check_name(name, err);

	if (r < 0)
		return r;
	if (keyring_find_project(ring, name)) {
		(void)err_set(err, ERR_CONFLICT, 0, "name: a project named '%s' exists already",
		              name);
		return err_hint(err, "use it, or take another name");
	}
	if (HASH_CNT(by_id, ring->projects_by_id) >= PROJECTS_MAX)
		return err_set(err, ERR_LIMIT, 0, "there are %d projects, which is the limit",
		               PROJECTS_MAX);
	return 0;
}

int keyring_add_project(struct keyring *ring, const char *name, const char **ret_id,
                        struct err *err)
{
	char id[ID_SIZE];
	struct project_row row = {.id = id, .name = name, .created_us = clock_wall_us()};
	int r = keyring_check_project(ring, name, err);

	if (r < 0)
		return r;
	id_make(id, "prj");
	r = store_put_project(ring->store, &row, err);
	if (r < 0)
		return r;
	project_attach_row(ring, &row);
	*ret_id = keyring_find_project(ring, id);
	return 0;
}

int keyring_remove_project(struct keyring *ring, const char *id, struct err *err)
{
	struct project *p = key_project_find(ring, id, NULL);
	int r;

	if (!p)
		return err_set(err, ERR_NOT_FOUND, 0, "no project '%.64s'", id);
	assert(p != key_project_find(ring, NULL, DEFAULT_PROJECT));
	r = store_delete_project(ring->store, p->id, err);
	if (r < 0)
		return r;
	key_forget_all(ring, p->id);
	HASH_DELETE(by_id, ring->projects_by_id, p);
	HASH_DELETE(by_name, ring->projects_by_name, p);
	p->is_removed = true;
	return 0;
}

const char *keyring_find_project(struct keyring *ring, const char *id_or_name)
{
	const struct project *p = key_project_find(ring, id_or_name, id_or_name);

	return p ? p->id : NULL;
}

const char *keyring_project_name(struct keyring *ring, const char *id)
{
	const struct project *p = key_project_find(ring, id, NULL);

	return p ? p->name : NULL;
}

void keyring_each_project(struct keyring *ring,
                          void (*fn)(const char *id, const char *name, uint64_t created_us,
                                     void *arg),
                          void *arg)
{
	list_for_each (&ring->projects, struct project, p, link)
		if (!p->is_removed)
			fn(p->id, p->name, p->created_us, arg);
}
