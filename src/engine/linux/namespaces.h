// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Namespaces from outside: a net namespace without a link, id maps, idmapped mounts. */
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

#define NAMESPACES_IDS_EACH  65536U
#define NAMESPACES_FIRST_ID  0x30000000U /* above any user of an administrator's */
#define NAMESPACES_SLOTS_MAX ((UINT32_MAX - NAMESPACES_FIRST_ID) / NAMESPACES_IDS_EACH)
/* The range below is not for sandboxes. */
#define NAMESPACES_SPAWNER_ID (NAMESPACES_FIRST_ID - NAMESPACES_IDS_EACH)
#define NAMESPACES_ZYGOTE_ID  (NAMESPACES_SPAWNER_ID + 1)
#define NAMESPACES_OWNERS_ID  (NAMESPACES_SPAWNER_ID + 2) /* and so on, one a slot */

/*
 * Moves this process into a new net namespace with nothing but `lo`, up. It belongs to our user
 * namespace, so nobody in a sandbox has a capability over it.
 */
must_check int namespaces_enter_new_net(struct err *err);

uint32_t namespaces_first_id(uint32_t slot); /* of the slot's range on the host */
/* The owner of the slot's user namespace: an id that nobody inside has, and different for each
 * sandbox. */
uint32_t namespaces_owner_id(uint32_t slot);
must_check int namespaces_write_id_maps(pid_t pid, uint32_t slot,
                                        struct err *err); /* a sandbox's */
must_check int namespaces_write_spawner_maps(pid_t pid,
                                             struct err *err); /* every range, each id to itself */
/* A detached copy of a directory's mount, with its ids mapped to those inside. */
must_check int namespaces_idmapped_mount(int dir_fd, int userns_fd, bool is_read_only, int *ret_fd,
                                         struct err *err);
/* The same without mapping ids. */
must_check int namespaces_detached_mount(int dir_fd, bool is_read_only, int *ret_fd,
                                         struct err *err);
