// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the member tells the gateway of its node, over the socket between them: one message at each
 * change, of fixed size (SOCK_SEQPACKET).
 */
#include "cluster/fence.h"

struct cluster_word {
	uint32_t state; /* of enum fence_state */
	uint32_t node;  /* 0: it is in no cluster yet */
	uint64_t epoch;
	uint64_t change; /* the newest of projects, keys and quotas that the database knows */
	char code[32];   /* of what is wrong; "" = nothing */
	char message[300], hint[240];
	uint32_t n_wanted;   /* another number: others wait for some lease of this node */
	uint32_t n_compares; /* another number: the database may have lost something */
	uint32_t n_rewinds;  /* another number: it has */
	uint64_t lost_us;  /* when others take the node for dead, if no beat is answered; steady */
	uint64_t right_us; /* likewise, when they may take what outlives it; 0: from now on */
	uint32_t n_takeovers; /* another number: this node has claimed another one */
};
