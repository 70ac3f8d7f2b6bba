// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a project gets of the daemon beside the others, while several want something: equal parts,
 * or by the weight in its quota. There is a share for each project that was seen, and one, of the
 * empty id, for work that is no project's: clients that have not said who they are, and spares that
 * nobody caused. All on the loop's thread.
 */
#include "base/fair.h"
#include "base/id.h"

#include <stddef.h>
#include <uthash.h>

struct share {
	char project_id[ID_SIZE];
	struct fair_share turn;   /* of the gateway's loop (loop/loop.h) */
	struct fair_share broker; /* of the broker's time (sandbox/brokerclient/broker_client.c) */
	size_t n_asks;            /* creates and deletes that are asked for, */
	size_t n_under_way;       /* and of these, those that the broker is at */
	size_t n_creating;        /* creates that somebody waits for */
	uint64_t paid_us; /* steady: until then all output that was acknowledged takes, and */
	size_t n_paced;   /* sandboxes whose output waits for its pace (sandbox/agentlink/channel.c)
	                   */
	UT_hash_handle hh;
};

struct shares;
struct shares *shares_new(void);
void shares_free(struct shares *shares); /* after everything that borrowed one; NULL is fine */

/* It lives as long as shares. NULL: shares is NULL. */
struct share *shares_get(struct shares *shares, const char *project_id);
/* shares may be NULL. */
void shares_set_weight(struct shares *shares, const char *project_id, uint32_t weight);
