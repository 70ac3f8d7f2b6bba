// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the gateway knows of its cluster (node/node.h), behind the socket to the member. */
#include "daemon/gateway/cluster_link.h"
#include "node/node.h"

/* NULL: there is no member, and this node is alone. The link outlives it. Of services, the call and
 * its link are set here. */
struct node *node_link_open(struct cluster_link *link, bool has_member,
                            const struct node_config *services);
