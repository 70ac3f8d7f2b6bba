// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The gateway's end of the socket to the member (src/member): what the member says about this
 * node's place in its cluster. A member that is gone has said its last word; the launcher starts
 * another, whose socket is attached anew.
 */
#include "cluster/word.h"
#include "loop/loop.h"

struct cluster_link { /* zero: this node is alone */
	int fd;       /* where io is not NULL */
	struct loop_io *io;
	struct cluster_word word; /* the last one */
};

void cluster_link_attach(struct cluster_link *l, struct loop *loop, int fd); /* -1: does nothing */
