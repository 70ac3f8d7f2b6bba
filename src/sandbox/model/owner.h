// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Tells the broker who owns a sandbox or a volume, if that matters. */
#include "sandbox/model/sandbox_private.h"

void owner_open(struct fleet *fleet);
void owner_close(struct fleet *fleet);
/* The number and weight of a project; leaves both unchanged if there is no project. */
void owner_name(const struct share *share, uint64_t *ret_number, uint32_t *ret_weight);
void owner_tell(struct sandbox *s); /* soon */
void owner_look(struct sandbox *s); /* and again, if its project has another weight by now */
/* The number that a new volume of the project is counted for; 0: for nobody. */
uint64_t owner_of_volume(const struct fleet *fleet, const char *project_id);
void owner_tell_volume(struct fleet *fleet, const char *id, const char *project_id);
