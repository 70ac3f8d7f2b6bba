// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * How the daemon's time is divided while several projects want it: in equal parts, or by the
 * weights in their quotas. Each project that was seen has a share. One more, with an empty id, is
 * for work that belongs to no project: clients that are not authenticated yet, and spares that no
 * project caused. All of this is on the loop's thread.
 */
#include "base/fair.h"
#include "base/id.h"

#include <stddef.h>
#include <uthash.h>

struct share {
	char project_id[ID_SIZE];
	struct fair_share turn;    /* of the gateway's loop (loop/loop.h) */
	struct fair_share broker;  /* of the broker's time (sandbox/brokerclient/broker_client.c) */
	struct fair_share creates; /* that wait for room (create_queue.h), */
	size_t n_waiting;          /* and how many these are */
	size_t n_asks;             /* creates and deletes that are asked for, */
	size_t n_under_way;        /* and how many of these the broker has */
	size_t n_creating;         /* creates that somebody waits for */
	uint64_t paid_us; /* steady: until then all output that was acknowledged takes, and */
	size_t n_paced;   /* sandboxes whose output waits for its pace (sandbox/agentlink/channel.c)
	                   */
	UT_hash_handle hh;
};

struct shares;
struct shares *shares_new(void);
void shares_free(struct shares *shares); /* after everything that borrowed one; NULL is fine */

/* The share lives as long as shares. NULL if shares is NULL. */
struct share *shares_get(struct shares *shares, const char *project_id);
/* shares may be NULL. */
void shares_set_weight(struct shares *shares, const char *project_id, uint32_t weight);
