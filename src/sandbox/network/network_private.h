// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the files of a sandbox's network share: network.c has its policy, door.c brings door and
 * wall into line with that, trust.c makes programs inside trust the issuer, signer_inside.c leads
 * them to the signer, and wall_reports.c takes what the wall tells.
 */
#include "base/list.h"
#include "sandbox/network/install.h"
#include "sandbox/network/network.h"

struct network_waiter {
	network_fn fn;
	void *arg;
	struct list link;
};

struct network {
	struct sandbox *sandbox;
	struct policy *policy;
	struct policy *lent;       /* in force instead, or NULL */
	char *locked;              /* the row's sealed policy, which does not open; or NULL */
	bool is_stale;             /* its row is to be written anew */
	uint64_t version, applied; /* of what is wanted; 0 = none */
	bool is_open;
	uint64_t sending;       /* the version that the wall is being told */
	uint64_t ask;           /* of the broker, under way */
	uint64_t call;          /* of the wall, likewise */
	char *certificate;      /* that programs inside have to trust, or NULL */
	bool is_own;            /* of the sandbox's own issuer, not of the one of refusals */
	struct install *trust;  /* being installed */
	bool is_trusted;        /* it was, in this life of the sandbox */
	struct install *signer; /* the way to it, being made */
	char *known_hosts;      /* for that way, or that it was made with; NULL: there is none */
	bool has_signer;        /* it was made, in this life of the sandbox */
	unsigned n_learnt;      /* under this version */
	char denied[HOST_SIZE]; /* the last one; "": none */
	struct list waiters;
	struct loop_timer *again;
	struct loop_timer *renewal; /* of the tokens that the wall has; NULL: it never had one */
	uint64_t last_call;         /* of the wall: to close for good, and tell the last bytes */
	void (*over)(struct sandbox *s);
};

struct network *network_of(struct sandbox *s);                /* makes it if there is none */
const struct policy *network_wanted(const struct network *n); /* the lent one, else its own */
must_check int network_write(const struct policy *policy, struct buf *out); /* with credentials */

bool network_needs_door(const struct network *n); /* its policy or its group does */
void door_step(struct network *n);
bool door_is_busy(const struct network *n);
void door_on_timer(struct loop *loop, void *arg);

/* What the daemon builds in its own sandboxes becomes templates, which are to be the same whoever
 * builds them: no issuer of one sandbox is in them. */
bool trust_is_needed(const struct sandbox *s, const struct policy *p);
void trust_forget(struct network *n);
void trust_begin(struct network *n);
/* The issuer may be another than under the last policy. certificate: "": there is none. */
void trust_take(struct network *n, const char *certificate);
void trust_drop(struct network *n); /* whom its source trusts, and begins then */
bool network_is_paused(const struct sandbox *s);

/* group_dial.c: answered later. */
struct wall_dial;
void group_on_dial(struct fleet *fleet, const struct wall_dial *message);

/* Makes or removes the way to the signer, as the policy wants it. */
void signer_begin(struct network *n);
void signer_forget(struct network *n);
