// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The broker's side of namespaces: a net namespace without a link, id maps, idmapped mounts. */
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

#define NS_IDS_EACH  65536U
#define NS_SLOTS_MAX ((UINT32_MAX - 0x30000000U) / NS_IDS_EACH)

/*
 * Moves this process into a new net namespace with nothing but `lo`, up. It belongs to the host's
 * user namespace, so nobody in a sandbox has a capability over it. ns_leave_net() goes back, and
 * aborts if it cannot: a broker in a sandbox's namespace must not go on.
 */
must_check int ns_enter_new_net(struct err *err);
void ns_leave_net(int host_net_fd);

uint32_t ns_first_id(uint32_t slot); /* of the slot's range on the host */
must_check int ns_write_id_maps(pid_t pid, uint32_t slot, struct err *err);
/* A detached copy of a directory's mount in which ids are those inside. */
must_check int ns_idmapped_mount(int dir_fd, int userns_fd, bool is_read_only, int *ret_fd,
                                 struct err *err);
