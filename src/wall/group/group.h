// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Groups of sandboxes that reach each other by name. The gateway says who is in which; the wall
 * knows no other. A member's name has an address of its own inside, 198.18.2.N, which belongs to
 * nobody else; N is the member's number in the group and stays the same as long as it is in it.
 */
#include "net/match/hostname.h"
#include "wall/door.h"

struct group;

struct group_member {
	struct group *group;
	char id[ID_SIZE]; /* of the sandbox */
	uint8_t number;   /* of 1 to 254 */
	struct hostname alias;
	size_t n_conns; /* that lead to it */
	UT_hash_handle hh;
};

/*
 * Replaces the members of a group; id is the gateway's for it. text: a line "NUMBER ALIAS SANDBOX"
 * for each; none: the group is gone. Connections to who is not in it any more, and theirs to
 * others, are cut. On failure nothing is changed.
 */
must_check int groups_set(struct doors *all, const char *id, const char *text, size_t len);
void groups_free(struct doors *all);
/* NULL: it is in no group. Borrowed until the next groups_set(). */
struct group_member *group_find_id(const struct doors *all, const char *sandbox_id);
/* Of the door's own group; NULL: there is none. */
struct group_member *group_find_alias(const struct door *door, const struct hostname *name);
struct group_member *group_find_address(const struct door *door, const struct address *dialled);
/* The address of a member, as the door's sandbox sees it: its own name means itself. */
void group_address(const struct door *door, const struct group_member *m, uint8_t ret[4]);
