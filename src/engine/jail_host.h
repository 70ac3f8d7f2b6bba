// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Opens and closes what all guests share. */
#include "engine/guest/guest.h"
#include "engine/jail/zygote/zygotes.h"

extern const struct engine jail_engine;   /* jail.c */
extern const struct guest_kind jail_kind; /* jail_start.c */

must_check int jail_host_open(const struct engine_host *given, struct guest_host **ret,
                              struct err *err);
void jail_host_close(struct guest_host *host,
                     bool is_over); /* over: no guest lives, everything may go */
void jail_disk(struct guest_host *host, struct host_disk *ret);
int jail_set_owner(struct guest_host *host, const char *layer, uint64_t owner, struct err *err);
void jail_each_image(struct guest_host *host, void (*fn)(const struct image_info *info, void *arg),
                     void *arg);
int jail_remove_image(struct guest_host *host, const struct digest *image, struct err *err);

/* volume_copy.c */
int volume_copy(struct guest_host *host, const struct volume_copy_spec *spec, volume_copied_fn fn,
                void *arg, struct err *err);
void volume_copies_close(void); /* the broker leaves */
