// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Quotas that all nodes of a cluster share. What a project or key has a limit of, this node admits
 * out of a lease (cluster/lease.h): the part of the limit that the cluster's database has given to
 * it. Where nothing is limited there are no leases, and a machine that is alone has none at all.
 *
 * Here is what the leases say; somebody else asks the database (node/leases.h), and tells the
 * answers. None of them is believed: a grant is never more than was asked for.
 */
#include "base/id.h"
#include "cluster/lease.h"
#include "tenant/quota.h"

#define QUOTA_HOPE_US UINT64_C(3000000) /* a create waits so long for others to give something */

struct quota_sharing {
	/* Whether the owner is the cluster's, and not this node's alone. */
	bool (*is_shared)(const struct quota_owner *owner, bool is_key, void *arg);
	int (*check)(struct err *err, void *arg); /* fails if nobody can be asked now */
	void (*wanted)(void *arg);                /* there is something to ask */
};
void quota_share(struct quota *q, const struct quota_sharing *sharing, void *arg);

struct quota_lease_ask {
	char owner[ID_SIZE];
	char what[24];
	struct lease_call call;
	uint64_t spent, usual; /* usual: the limit, if the owner has none of its own */
};
/* The calls that are to be made now; each is under way until it is answered or has failed. */
size_t quota_leases_due(struct quota *q, struct quota_lease_ask *ret, size_t n_max);
struct quota_lease_answer {
	const char *owner, *what;
	uint64_t number, total;
	bool has_total; /* else the number was an old one */
	uint64_t limit, leased, used;
};
/* False: the database knows another number, and the leases have to be read anew. */
bool quota_lease_answered(struct quota *q, const struct quota_lease_answer *a);
void quota_lease_failed(struct quota *q, const char *owner, const char *what, uint64_t number);
/* Nothing is known to be this node's. What exists is borrowed. */
void quota_leases_forget(struct quota *q);
/* The database says what it has for this node. */
void quota_lease_own(struct quota *q, const char *owner, const char *what, uint64_t number,
                     uint64_t total);
void quota_lease_recall(struct quota *q, const char *owner, const char *what);
bool quota_leases_have_rest(const struct quota *q); /* something is not used */

/* Whether what all nodes use is asked for now, because what is known of it is old. */
bool quota_lease_refresh(struct quota *q, const struct quota_owner *owner);

/* Creates a minute: bought in advance, a few at a time. */
struct quota_rate_ask {
	char owner[ID_SIZE];
	uint64_t n, usual;
};
bool quota_rate_due(struct quota *q, struct quota_rate_ask *ret);
/* wait_ms: until there is one more; UINT64_MAX: never. */
void quota_rate_answered(struct quota *q, const struct quota_rate_ask *ask, uint64_t n,
                         uint64_t wait_ms);
void quota_rate_failed(struct quota *q, const char *owner);
