// SPDX-License-Identifier: Apache-2.0
/*
 * A table of all members by the sandbox's id, and a list of all groups, which is looked through
 * when one changes. Names and numbers are looked for in a group's own list.
 */
#include "wall/group/group.h"

#include "base/parse.h"
#include "wall/conn.h"

#include <string.h>

#define LINE_SIZE (sizeof("254") + HOSTNAME_SIZE + ID_SIZE)

struct group {
	char id[ID_SIZE];
	size_t n_members;
	struct group *next;
	struct group_member members[WALL_GROUP_MAX];
};

/* Addresses that belong to nobody (RFC 2544), as those of stub.c. */
static const uint8_t first_member[4] = {198, 18, 2, 0}, itself[4] = {127, 0, 0, 1};

static struct group *find_group(const struct doors *all, const char *id)
{
	struct group *g = all->groups;

	while (g && strcmp(g->id, id) != 0)
		g = g->next;
	return g;
}

struct group_member *group_find_id(const struct doors *all, const char *sandbox_id)
{
	struct group_member *m = NULL;

	HASH_FIND_STR(all->members, sandbox_id, m);
	return m;
}

static struct group *group_of(const struct door *door)
{
	const struct group_member *own = group_find_id(door->all, door->id);

	return own ? own->group : NULL;
}

struct group_member *group_find_alias(const struct door *door, const struct hostname *name)
{
	struct group *g = group_of(door);

	for (size_t i = 0; g && i < g->n_members; i++)
		if (hostname_is_equal(&g->members[i].alias, name))
			return &g->members[i];
	return NULL;
}

struct group_member *group_find_address(const struct door *door, const struct address *dialled)
{
	struct group *g = group_of(door);

	if (!g || dialled->bits != 32 || memcmp(dialled->bytes, first_member, 3) != 0)
		return NULL;
	for (size_t i = 0; i < g->n_members; i++)
		if (g->members[i].number == dialled->bytes[3])
			return &g->members[i];
	return NULL;
}

void group_address(const struct door *door, const struct group_member *m, uint8_t ret[4])
{
	if (strcmp(m->id, door->id) == 0) {
		memcpy(ret, itself, sizeof(itself));
		return;
	}
	memcpy(ret, first_member, sizeof(first_member));
	ret[3] = m->number;
}

/* "7 db sb_…" */
static int read_member(char *line, struct group_member *ret)
{
	char *alias = strchr(line, ' '), *id = alias ? strchr(alias + 1, ' ') : NULL;
	const char *why;
	uint64_t number;

	if (!id)
		return -EINVAL;
	*alias++ = *id++ = '\0';
	if (parse_u64(line, 254, &number) < 0 || number == 0 || !id_is_valid(id, "sb"))
		return -EINVAL;
	ret->number = (uint8_t)number;
	(void)snprintf(ret->id, sizeof(ret->id), "%s", id);
	return hostname_parse(alias, strlen(alias), &ret->alias, &why);
}

static int read_members(struct group *g, const char *text, size_t len)
{
	for (const char *at = text, *end = text + len; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		char line[LINE_SIZE];
		struct group_member *m = &g->members[g->n_members];
		size_t n = newline ? (size_t)(newline - at) : sizeof(line);

		if (n >= sizeof(line) || g->n_members == WALL_GROUP_MAX)
			return -EINVAL;
		memcpy(line, at, n);
		line[n] = '\0';
		if (read_member(line, m) < 0)
			return -EINVAL;
		m->group = g;
		g->n_members++;
		at = newline + 1;
	}
	return 0;
}

static void forget(struct doors *all, struct group *g)
{
	struct group **at = &all->groups;

	for (size_t i = 0; i < g->n_members; i++)
		HASH_DEL(all->members, &g->members[i]);
	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
}

/* A sandbox is in one group: what another says of it is not taken. */
static void add(struct doors *all, struct group *g, const struct group *old)
{
	size_t n = 0;

	g->next = all->groups;
	all->groups = g;
	for (size_t i = 0; i < g->n_members; i++) {
		struct group_member *m = &g->members[n];

		if (group_find_id(all, g->members[i].id))
			continue;
		*m = g->members[i];
		for (size_t k = 0; old && k < old->n_members; k++)
			if (strcmp(old->members[k].id, m->id) == 0)
				m->n_conns = old->members[k].n_conns;
		HASH_ADD_STR(all->members, id, m);
		n++;
	}
	g->n_members = n;
}

static void judge_again(struct doors *all, const struct group *g)
{
	for (size_t i = 0; i < g->n_members; i++) {
		struct door *door = doors_find(all, g->members[i].id);

		if (door)
			conn_judge_again(door);
	}
}

int groups_set(struct doors *all, const char *id, const char *text, size_t len)
{
	struct group *old = find_group(all, id);
	auto_free struct group *g = xnew0(struct group);

	(void)snprintf(g->id, sizeof(g->id), "%s", id);
	if (read_members(g, text, len) < 0)
		return -EINVAL;
	if (old)
		forget(all, old);
	if (g->n_members > 0)
		add(all, take_ptr(g), old);
	if (old)
		judge_again(all, old); /* also of those who have left */
	free(old);
	return 0;
}

void groups_free(struct doors *all)
{
	struct group *g;

	while ((g = all->groups)) {
		forget(all, g);
		free(g);
	}
}
