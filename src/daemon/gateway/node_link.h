// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the gateway knows of its cluster (node/node.h), behind the socket to the member. */
#include "daemon/gateway/cluster_link.h"
#include "node/node.h"

/* NULL: there is no member, and this node is alone. The link outlives it. */
struct node *node_link_open(struct cluster_link *link, bool has_member, struct loop *loop,
                            struct keyring *keyring, struct quota *quota);
