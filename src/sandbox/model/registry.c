// SPDX-License-Identifier: Apache-2.0
/*
 * The registry: sandboxes by id, by project and name, and in order of creation. Living sandboxes
 * hold their names, and so do persistent ones that do not run. Any other loses its name when it
 * ends, but can be found by its id, with its execs and their output, for a while
 * (lifecycle/ended_retention.c).
 */
#include "sandbox/model/registry.h"

#include "base/log.h"
#include "node/node.h"
#include "sandbox/model/sandbox_private.h"

#include <inttypes.h>

int fleet_check_disk(const struct fleet *fleet, struct err *err)
{
	return host_disk_check(&fleet->disk, err);
}

void fleet_check_keeper(const struct fleet *fleet, const char *file, uint64_t keeper)
{
	uint64_t us = store_number(fleet->config.store);

	if (keeper != us)
		log_warn("keeper.damaged", "file='%s' hint='write %" PRIu64 " into it'", file, us);
}

struct sandbox *fleet_find_id(struct fleet *fleet, const char *id)
{
	struct sandbox *s = NULL;

	HASH_FIND(by_id, fleet->by_id, id, strlen(id), s);
	return s;
}

struct sandbox *sandbox_find_name(struct fleet *fleet, const char *project_id, const char *name)
{
	char key[ID_SIZE + 1 + SANDBOX_NAME_MAX + 1];
	int len = snprintf(key, sizeof(key), "%s/%s", project_id, name);
	struct sandbox *s = NULL;

	if (len < (int)sizeof(key)) /* no sandbox has a longer one */
		HASH_FIND(by_name, fleet->by_name, key, (size_t)len, s);
	return s;
}

bool fleet_has_name(struct fleet *fleet, const char *project_id, const char *name)
{
	return sandbox_find_name(fleet, project_id, name) != NULL;
}

struct sandbox *sandbox_find(struct fleet *fleet, const char *project_id, const char *id_or_name)
{
	struct sandbox *s = fleet_find_id(fleet, id_or_name);

	if (s && strcmp(s->project_id, project_id) == 0)
		return s;
	return sandbox_find_name(fleet, project_id, id_or_name);
}

struct sandbox *sandbox_find_shown(struct fleet *fleet, const char *id,
                                   bool (*says_yes)(const struct sandbox *s, void *arg), void *arg)
{
	struct sandbox *one = id ? fleet_find_id(fleet, id) : NULL;

	if (id)
		return one && !one->spare && says_yes(one, arg) ? one : NULL;
	list_for_each (&fleet->all, struct sandbox, s, link_all)
		if (!s->spare && says_yes(s, arg))
			return s;
	return NULL;
}

static void count(struct fleet *fleet, const struct sandbox *s, size_t by)
{
	switch (s->place) {
	case PLACE_NONE:
		return;
	case PLACE_ALIVE:
		fleet->n_alive += by;
		break;
	case PLACE_KEPT:
		break;
	case PLACE_ENDED:
		fleet->n_ended += by;
		return;
	}
	fleet->n_persistent += s->is_persistent ? by : 0;
}

/* The room for spares may change with it, so callers let the pool check, unless the fleet ends. */
static void set_place(struct fleet *fleet, struct sandbox *s, enum fleet_place place)
{
	if (s->place == PLACE_ENDED)
		fleet->ended_bytes -= s->retained_bytes;
	count(fleet, s, (size_t)-1);
	list_remove(&s->link_ended);
	s->place = place;
	count(fleet, s, 1);
	node_sandbox_changed(fleet->config.node, s->id);
	if (place != PLACE_ALIVE)
		create_queue_look(fleet->creates);
	if (place != PLACE_ENDED)
		return;
	list_append(&fleet->ended, &s->link_ended);
	fleet->lifecycle->retain(s);
}

static void drop_name(struct fleet *fleet, struct sandbox *s)
{
	if (!s->name_key)
		return;
	HASH_DELETE(by_name, fleet->by_name, s);
	free(take_ptr(s->name_key));
	node_give(fleet->config.node, s->id, /* with_key= */ false);
}

static void take_name(struct fleet *fleet, struct sandbox *s)
{
	if (s->name[0] == '\0')
		return;
	s->name_key = xasprintf("%s/%s", s->project_id, s->name);
	HASH_ADD_KEYPTR(by_name, fleet->by_name, s->name_key, strlen(s->name_key), s);
}

void fleet_attach(struct fleet *fleet, struct sandbox *s)
{
	list_append(&fleet->all, &s->link_all);
	HASH_ADD_KEYPTR(by_id, fleet->by_id, s->id, strlen(s->id), s);
	if (s->state == SANDBOX_PAUSED && s->paused_in[0])
		set_place(fleet, s, PLACE_KEPT);
	else if (sandbox_is_alive(s))
		set_place(fleet, s, PLACE_ALIVE);
	else
		set_place(fleet, s, s->is_kept ? PLACE_KEPT : PLACE_ENDED);
	if (s->place != PLACE_ENDED) {
		take_name(fleet, s);
		group_join(s);
	}
	fleet->spares->look(fleet->pool);
}

void fleet_detach(struct fleet *fleet, struct sandbox *s)
{
	drop_name(fleet, s);
	group_leave(s);
	set_place(fleet, s, PLACE_NONE);
	list_remove(&s->link_all);
	HASH_DELETE(by_id, fleet->by_id, s);
}

void fleet_on_ended(struct fleet *fleet, struct sandbox *s)
{
	fleet->spares->look(fleet->pool);
	if (s->is_kept) {
		set_place(fleet, s, PLACE_KEPT);
		return;
	}
	drop_name(fleet, s);
	group_leave(s);
	set_place(fleet, s, PLACE_ENDED);
}

void fleet_on_rested(struct fleet *fleet, struct sandbox *s)
{
	set_place(fleet, s, PLACE_KEPT);
	fleet->spares->look(fleet->pool);
}

void fleet_on_revived(struct fleet *fleet, struct sandbox *s)
{
	set_place(fleet, s, PLACE_ALIVE);
	fleet->spares->look(fleet->pool);
}

void fleet_rename(struct fleet *fleet, struct sandbox *s, const char *name)
{
	char *old = s->name;

	drop_name(fleet, s);
	s->name = xstrdup(name);
	free(old);
	take_name(fleet, s);
}

static bool matches(const struct sandbox *s, const struct sandbox_filter *f)
{
	const char *value;

	if (strcmp(s->project_id, f->project_id) != 0)
		return false;
	if (f->state ? strcmp(f->state, sandbox_state_name(s->state)) != 0
	             : s->place == PLACE_ENDED)
		return false;
	if (f->group && (!s->group || strcmp(s->group, f->group) != 0))
		return false;
	if (!f->tag_name)
		return true;
	value = json_string_value(json_object_get(s->tags, f->tag_name));
	return value && (!f->tag_value || strcmp(value, f->tag_value) == 0);
}

const struct guest_limits *fleet_default_limits(const struct fleet *fleet)
{
	return &fleet->config.default_limits;
}

size_t fleet_list(struct fleet *fleet, const struct sandbox_filter *filter,
                  void (*fn)(struct sandbox *s, void *arg), void *arg, bool *ret_more)
{
	/* If the cursor's sandbox is forgotten, the list starts again: seeing one twice is better
	 * than missing one. Another project's id is treated the same, so that nobody learns whether
	 * it exists. */
	struct sandbox *after = filter->after_id ? fleet_find_id(fleet, filter->after_id) : NULL;
	bool is_own = after && strcmp(after->project_id, filter->project_id) == 0;
	struct list *at = is_own ? after->link_all.prev : fleet->all.prev;
	size_t n = 0;

	*ret_more = false;
	for (; at != &fleet->all; at = at->prev) {
		struct sandbox *s = list_entry(at, struct sandbox, link_all);

		if (!matches(s, filter))
			continue;
		if (n == filter->limit) {
			*ret_more = true;
			break;
		}
		fn(s, arg);
		n++;
	}
	return n;
}

uint64_t sandbox_created_us(const struct sandbox *s)
{
	return s->created_us;
}

static int newest_first(const void *a, const void *b)
{
	const struct sandbox *x = *(const struct sandbox *const *)a,
			     *y = *(const struct sandbox *const *)b;

	if (x->created_us != y->created_us)
		return x->created_us > y->created_us ? -1 : 1;
	return strcmp(y->id, x->id);
}

static bool is_behind(const struct sandbox *s, uint64_t us, const char *id)
{
	return s->created_us != us ? s->created_us < us : strcmp(s->id, id) < 0;
}

size_t fleet_list_ordered(struct fleet *fleet, const struct sandbox_filter *f,
                          void (*fn)(struct sandbox *s, void *arg), void *arg, bool *ret_more)
{
	struct sandbox **found = NULL, *after = NULL;
	uint64_t after_us = f->after_us;
	size_t n = 0, size = 0;

	if (f->after_id && after_us == 0) {
		after = fleet_find_id(fleet, f->after_id);
		if (after && strcmp(after->project_id, f->project_id) == 0)
			after_us = after->created_us;
	}
	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		if (!matches(s, f) || (after_us != 0 && !is_behind(s, after_us, f->after_id)))
			continue;
		if (n == size) {
			size = size ? 2 * size : 64;
			found = xrealloc(found, size * sizeof(struct sandbox *));
		}
		found[n++] = s;
	}
	if (n > 1)
		qsort(found, n, sizeof(struct sandbox *), newest_first);
	*ret_more = n > f->limit;
	n = MIN(n, f->limit);
	for (size_t i = 0; i < n; i++)
		fn(found[i], arg);
	free(found);
	return n;
}
