// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which role somebody has in which project, by what the provider says: a list of texts
 * "VALUE=ROLE:PROJECT". VALUE is one of the values of a claim, such as a group, and * stands for
 * everybody whom the provider lets in. If several fit, the strongest role of a project counts.
 */
#include "tenant/person_key.h"

struct role_map;

/* list: NULL-terminated, or NULL. field names the setting in errors. */
must_check int role_map_parse(char *const *list, const char *field, struct role_map **ret,
                              struct err *err);
void role_map_free(struct role_map *map); /* NULL is fine */
/* claim: a name, or names with dots between them, for a claim inside of others. Projects that do
 * not exist are left out. Returns how many roles there are. */
size_t role_map_apply(const struct role_map *map, const json_t *claims, const char *claim,
                      struct keyring *ring, struct person_role ret[PERSON_ROLES_MAX]);
