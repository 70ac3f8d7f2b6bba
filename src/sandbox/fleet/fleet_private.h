// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Shared by the files of a fleet's start and end. */
#include "sandbox/fleet/fleet.h"
#include "sandbox/model/sandbox_private.h"

/* startup_adoption.c: makes a ready fleet from the store's rows and the broker's list. */
must_check int adoption_start(struct fleet *fleet, loop_fn ready, void *arg, struct err *err);
void adoption_on_rejoined(struct sandbox *s); /* it is up, or given up */
void adoption_free(struct fleet *fleet);

/* backup.c */
must_check int backups_open(struct fleet *fleet, struct err *err);
void backups_close(struct fleet *fleet);

/* fleet.c */
void fleet_on_disk(const struct host_disk *disk, void *fleet); /* the broker's word */
void fleet_give_up(struct fleet *fleet);                       /* there is no broker to work with */

/* directory_rows.c: other nodes of the cluster may know what is here */
void directory_rows_open(struct fleet *fleet);
