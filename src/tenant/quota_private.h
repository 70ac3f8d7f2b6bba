// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the files of quotas share.
 *
 *	quota.c         accounts, and what is admitted out of them
 *	quota_lease.c   the parts of them that this node may use in a cluster
 *	quota_rate.c    creates a minute that were bought there
 *	quota_show.c    an account as JSON
 *	quota_fields.c  the names and units of limits
 */
#include "base/id.h"
#include "base/list.h"
#include "tenant/quota.h"

#include <uthash.h>

#define QUOTA_TOKEN  (UINT64_C(60) * 1000000)
#define QUOTA_OWNERS 2 /* of a sandbox: its project, and perhaps its key */

struct account {
	char id[ID_SIZE];
	bool is_key;
	struct quota_setting setting;
	struct quota_held current;
	uint64_t tokens, filled_us;    /* of creates; filled_us 0 = never looked at */
	struct usage month;            /* used since its first day */
	struct account_leases *leases; /* quota_lease.c; NULL: nothing was shared yet */
	UT_hash_handle hh;
};

struct quota_sharing;

struct quota {
	struct quota_config config;
	struct store_usage *store;
	struct account *accounts;
	int32_t month;                       /* its first day */
	const struct quota_sharing *sharing; /* NULL: this machine is alone */
	void *sharing_arg;
	struct list leased; /* accounts with leases */
};

uint64_t quota_limit_of(const struct quota *q, const struct account *a, enum quota_what what);
struct account *quota_account_find(struct quota *q, const char *id);
struct account *quota_account_new(struct quota *q, const char *id);
size_t quota_accounts_of(struct quota *q, const struct quota_owner *owner,
                         struct account *ret[QUOTA_OWNERS]);
void quota_fill_bucket(struct quota *q, struct account *a);
const char *quota_whose(const struct account *a);

/* What it has spent this month, and could until the next check with this. */
uint64_t quota_cost(const struct quota *q, const struct account *a, const struct quota_held *held);

/* quota_show.c */
uint32_t quota_weight_of(const struct account *a);

/* quota_lease.c */

/* Whether other nodes use the account, too. */
bool quota_lease_has(struct quota *q, struct account *a, const struct quota_owner *owner);
/* Fails if this node has not enough of it, and has more asked for; NULL for err: only looks. */
must_check int quota_lease_check(struct quota *q, struct account *a, const struct quota_held *more,
                                 bool is_create, struct err *err);
/* Whether the database has said that nothing is left of the budget that it uses. */
bool quota_lease_is_spent(struct quota *q, struct account *a, struct err *err);
void quota_lease_created(struct account *a);                /* a create a minute was used */
void quota_lease_moved(struct quota *q, struct account *a); /* what it holds is another amount */
void quota_lease_set(struct quota *q, struct account *a);   /* its limits are others */
void quota_lease_put(struct quota *q, struct account *a, struct json_writer *w);
void quota_lease_free(struct account *a);
