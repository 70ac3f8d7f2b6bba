// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What all guests share is opened and closed here; zygotes are the jails' alone. */
#include "engine/guest/guest.h"
#include "engine/jail/zygote/zygotes.h"

extern const struct engine jail_engine; /* jail.c */
extern struct zygotes jail_zygotes;
extern const struct guest_kind jail_kind; /* jail_start.c */

must_check int jail_host_open(const struct engine_host *given, struct err *err);
void jail_host_close(bool is_over); /* over: no guest lives, everything may go */
void jail_disk(struct host_disk *ret);
int jail_set_owner(const char *layer, uint64_t owner, struct err *err);
void jail_each_image(void (*fn)(const struct image_info *info, void *arg), void *arg);
int jail_remove_image(const struct digest *image, struct err *err);
