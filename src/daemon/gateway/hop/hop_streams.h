// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Streams to peers' gateways that are kept between hops: a hop of a busy pair of nodes costs no
 * handshake. A stream that says something unasked, or has ended, is not kept. */
#include "daemon/gateway/cluster_link.h"

#define HOP_STREAMS_KEPT 32 /* of a node, while nobody uses them */

struct hop_streams {
	struct loop *loop;
	struct list *kept; /* of struct kept_stream */
	struct loop_timer *timer;
};

void hop_streams_init(struct hop_streams *s, struct loop *loop);
void hop_streams_done(struct hop_streams *s);
int hop_streams_take(struct hop_streams *s, uint32_t node); /* an fd of the caller's; -1: none */
void hop_streams_keep(struct hop_streams *s, uint32_t node, int fd); /* fd is its own then */
