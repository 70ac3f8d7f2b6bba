// SPDX-License-Identifier: Apache-2.0
/*
 * The wall gets the whole list each time, by a message that goes before those which open the door
 * of a new member: so who is told that a sandbox was created finds it in the group, from all
 * others. A list that could not be sent is sent again; a wall that starts anew asks for all
 * (groups_tell_all()).
 */
#include "sandbox/model/registry.h"

#include "base/buf.h"
#include "net/match/hostname.h"
#include "sandbox/model/create_rules.h"
#include "wall/client.h"

#include <assert.h>
#include <string.h>

#define NUMBERS  254 /* of an address's last byte */
#define AGAIN_US UINT64_C(1000000)

static_assert(GROUP_MEMBERS_MAX == WALL_GROUP_MAX, "the wall does not take all members");

struct group {
	struct fleet *fleet;
	char id[ID_SIZE]; /* for the wall */
	char *key;        /* project and name */
	struct list members;
	size_t n_members;
	uint32_t last_number; /* that was given */
	uint64_t call;        /* of the wall, under way */
	struct loop_timer *again;
	UT_hash_handle hh;
};

static struct group *find(struct fleet *fleet, const char *project_id, const char *name)
{
	auto_free char *key = xasprintf("%s/%s", project_id, name);
	struct group *g = NULL;

	HASH_FIND_STR(fleet->groups, key, g);
	return g;
}

const char *group_alias(const struct sandbox_spec *spec)
{
	return spec->alias ? spec->alias : spec->name;
}

static int check_alias(const char *alias, struct err *err)
{
	struct hostname name;
	const char *why;

	if (hostname_parse(alias, strlen(alias), &name, &why) < 0)
		return err_field(err, "alias", "'%s' is no host name: %s", alias, why);
	if (strcmp(name.text, alias) != 0 || strchr(alias, '.') || hostname_is_local(&name))
		return err_field(err, "alias",
		                 "must be one word of a-z, 0-9, '-' and '_', and not localhost");
	return 0;
}

int group_check_spec(const struct sandbox_spec *spec, struct err *err)
{
	int r;

	if (!spec->group)
		return spec->alias
		               ? err_field(err, "alias", "is a host name in a group: give group")
		               : 0;
	r = rules_check_word(spec->group, "group", err);
	if (r == 0 && !group_alias(spec)) {
		(void)err_field(err, "alias", "is required with group if there is no name");
		return err_hint(err, "it is the host name by which the others reach it");
	}
	return r < 0 ? r : check_alias(group_alias(spec), err);
}

int group_check_room(struct fleet *fleet, const char *project_id, const struct sandbox_spec *spec,
                     struct err *err)
{
	const struct group *g = find(fleet, project_id, spec->group);

	if (!g)
		return 0;
	list_for_each (&g->members, const struct sandbox, s, link_group) {
		if (strcmp(s->alias, group_alias(spec)) != 0)
			continue;
		(void)err_set(err, ERR_CONFLICT, 0,
		              "alias: sandbox %s is '%s' in group '%s' already", s->id, s->alias,
		              s->group);
		(void)snprintf(err->field, sizeof(err->field), "alias");
		return err_hint(err, "give another alias, or delete that sandbox");
	}
	if (g->n_members < GROUP_MEMBERS_MAX)
		return 0;
	(void)err_set(err, ERR_LIMIT, 0, "group: '%s' has %d members, which is the limit",
	              spec->group, GROUP_MEMBERS_MAX);
	(void)snprintf(err->field, sizeof(err->field), "group");
	return err_hint(err, "delete some: a stopped one that is kept counts too");
}

static bool has_number(const struct group *g, uint32_t number)
{
	list_for_each (&g->members, const struct sandbox, s, link_group)
		if (s->group_number == number)
			return true;
	return false;
}

uint32_t group_free_number(struct fleet *fleet, const char *project_id, const char *name)
{
	const struct group *g = find(fleet, project_id, name);
	uint32_t number = g ? g->last_number : 0;

	do
		number = number % NUMBERS + 1;
	while (g && has_number(g, number)); /* there are fewer members than numbers */
	return number;
}

bool group_has_both(const struct sandbox *a, const struct sandbox *b)
{
	return a->in_group && a->in_group == b->in_group;
}

const struct sandbox *group_find_other(const struct sandbox *s, const char *alias)
{
	if (!s->in_group)
		return NULL;
	list_for_each (&s->in_group->members, const struct sandbox, other, link_group)
		if (other != s && strcmp(other->alias, alias) == 0)
			return other;
	return NULL;
}

static void on_told(int error, const char *certificate, void *arg)
{
	struct group *g = arg;

	(void)certificate;
	g->call = 0;
	if (error < 0 && error != -EPIPE) /* a wall that is gone is followed by one that asks */
		loop_timer_set_in(g->again, AGAIN_US);
}

static void tell(struct group *g)
{
	struct wall_client *wall = g->fleet->config.wall;
	auto_call(buf_done) struct buf text = BUF_INIT(WALL_TEXT_MAX);
	int r = 0;

	if (!wall)
		return;
	list_for_each (&g->members, const struct sandbox, s, link_group)
		if (r == 0)
			r = buf_printf(&text, "%u %s %s\n", s->group_number, s->alias, s->id);
	if (r < 0)
		abort(); /* the most that there can be fits */
	loop_timer_set(g->again, UINT64_MAX);
	wall_client_cancel(wall, g->call);
	g->call = wall_client_set_group(wall, g->id, buf_str(&text), on_told, g);
}

static void on_again(struct loop *loop, void *arg)
{
	(void)loop;
	tell(arg);
}

void groups_tell_all(struct fleet *fleet)
{
	for (struct group *g = fleet->groups; g; g = g->hh.next)
		tell(g);
}

static struct group *group_new(struct fleet *fleet, const char *project_id, const char *name)
{
	struct group *g = xnew0(struct group);

	g->fleet = fleet;
	id_make_tagged(g->id, "gr");
	g->key = xasprintf("%s/%s", project_id, name);
	list_init(&g->members);
	g->again = loop_timer_new(fleet->config.loop, on_again, g);
	HASH_ADD_KEYPTR(hh, fleet->groups, g->key, strlen(g->key), g);
	return g;
}

static void group_free(struct group *g)
{
	if (g->fleet->config.wall)
		wall_client_cancel(g->fleet->config.wall, g->call);
	HASH_DEL(g->fleet->groups, g);
	loop_timer_free(g->again);
	free(g->key);
	free(g);
}

void group_join(struct sandbox *s)
{
	struct group *g;

	if (!s->group || !s->alias)
		return;
	g = find(s->fleet, s->project_id, s->group);
	if (!g)
		g = group_new(s->fleet, s->project_id, s->group);
	s->in_group = g;
	list_append(&g->members, &s->link_group);
	g->n_members++;
	g->last_number = s->group_number;
	tell(g);
}

void group_leave(struct sandbox *s)
{
	struct group *g = take_ptr(s->in_group);

	if (!g)
		return;
	list_remove(&s->link_group);
	g->n_members--;
	tell(g);
	if (g->n_members == 0)
		group_free(g);
}
