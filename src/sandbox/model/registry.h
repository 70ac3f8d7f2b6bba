// SPDX-License-Identifier: Apache-2.0
#pragma once
/* All sandboxes by id and name, and how the fleet counts them. */
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
