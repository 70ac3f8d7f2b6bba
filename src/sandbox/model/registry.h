// SPDX-License-Identifier: Apache-2.0
#pragma once
/* All sandboxes by id, name and group, and how the fleet counts them. */
#include "sandbox/model/find.h"

void fleet_attach(struct fleet *fleet, struct sandbox *s);
void fleet_detach(struct fleet *fleet, struct sandbox *s);
void fleet_on_ended(struct fleet *fleet, struct sandbox *s);   /* it became stopped or failed */
void fleet_on_rested(struct fleet *fleet, struct sandbox *s);  /* paused: nothing of it runs */
void fleet_on_revived(struct fleet *fleet, struct sandbox *s); /* a kept one is alive again */
void fleet_rename(struct fleet *fleet, struct sandbox *s, const char *name);
/* For something that has a row here: if its mark is damaged, logs that and the right contents. */
void fleet_check_keeper(const struct fleet *fleet, const char *file, uint64_t keeper);
struct sandbox *fleet_find_id(struct fleet *fleet, const char *id);
bool fleet_has_name(struct fleet *fleet, const char *project_id, const char *name);

/*
 * Groups: sandboxes of a project that reach each other by name, and are reached by nobody else. A
 * group begins with its first member and ends with its last. A sandbox is a member from its create
 * until it has ended, also while it is paused, and while a persistent one does not run; a copy of
 * it is in none. Each has a host name, its alias, and a number, which is a part of its address
 * inside (wall/group/group.h). The wall is told the members whenever they change.
 */
/* Names the field that is wrong. */
must_check int group_check_spec(const struct sandbox_spec *spec, struct err *err);
/* Whether it could join: nobody there has its alias, and there is room. */
must_check int group_check_room(struct fleet *fleet, const char *project_id,
                                const struct sandbox_spec *spec, struct err *err);
const char *group_alias(const struct sandbox_spec *spec);
/* For its next member: the one that was free for longest, so that an address which is still
 * remembered leads to nobody else. */
uint32_t group_free_number(struct fleet *fleet, const char *project_id, const char *name);
void group_join(struct sandbox *s);  /* what its fields say; without a group, nothing */
void group_leave(struct sandbox *s); /* NULL in in_group is fine */
/* The other member that has this alias, or NULL. */
const struct sandbox *group_find_other(const struct sandbox *s, const char *alias);
bool group_has_both(const struct sandbox *a, const struct sandbox *b);
void groups_tell_all(struct fleet *fleet); /* to a wall that knows none */
