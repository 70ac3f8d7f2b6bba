// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Decides whether a policy lets something through. A connection is judged as soon as it comes, and
 * again each time that more is known about it. The answer is final, or says what to find out next.
 *
 *	a guest asks DNS for a name		name
 *	    answers are passed on if allowed	name, dialled = resolved = each of them
 *	a guest connects			dialled, port
 *	    JUDGE_NEED_NAME: its first bytes	+ protocol, and name or that it has none
 *	    JUDGE_NEED_REQUEST: TLS terminated, or HTTP read
 *						+ request, for each one that comes
 *	    JUDGE_NEED_ADDRESS: the name is resolved
 *						+ resolved, for each address that was found
 *	    JUDGE_ALLOW: as decision.dial says	again when the policy is changed
 *
 * So a name that no rule could allow is never resolved, and only an address that was judged is
 * dialled.
 */
#include "net/match/host.h"
#include "net/match/path.h"
#include "net/match/range.h"
#include "net/policy/policy.h"

#define JUDGE_NO_RULE     SIZE_MAX
#define JUDGE_NO_RULE_WHY "no rule allows it" /* what a denial without one says */

struct judge_header {
	const char *name, *value;
};

/* An HTTP request. All members are borrowed. */
struct judge_request {
	const char *method;
	const struct host *host; /* of the request, by its target or Host field */
	uint16_t port;           /* said with it, or 0 */
	const struct path *path;
	const char *query; /* without '?', not decoded; NULL if absent */
	size_t query_len;
	const struct judge_header *headers;
	size_t n_headers;
};

enum judge_name_state {
	NAME_UNKNOWN, /* not looked yet */
	NAME_NONE,    /* looked: it says none */
	NAME_KNOWN,
};

/* What is known so far. Zero and NULL mean not known. */
struct judge_facts {
	enum judge_name_state name_state;
	const struct hostname *name;    /* if NAME_KNOWN */
	const struct address *dialled;  /* by the guest */
	const struct address *resolved; /* one of the name's, found by the wall */
	uint16_t port;
	enum policy_protocol protocol;
	const struct judge_request *request;
};

enum judge_outcome {
	JUDGE_DENY,
	JUDGE_ALLOW,
	JUDGE_NEED_NAME,
	JUDGE_NEED_REQUEST,
	JUDGE_NEED_ADDRESS,
};

enum judge_dial {
	DIAL_NAME,    /* resolved, whatever the guest dialled */
	DIAL_ADDRESS, /* what the guest dialled */
	DIAL_PROXY,   /* policy_proxy_of() the rule; it is given the name, or else the address */
	DIAL_NOTHING, /* the rule says what to do instead: forward, respond */
};

struct judge_decision {
	enum judge_outcome outcome;
	/* The rule that decided, or JUDGE_NO_RULE; when more must be known, the first rule that
	 * might match. */
	size_t rule;
	enum judge_dial dial;   /* of JUDGE_ALLOW */
	bool is_recorded;       /* JUDGE_ALLOW only because the policy's mode is to record */
	enum range_kind closed; /* of JUDGE_DENY: a rule failed at this range; else RANGE_PUBLIC */
	bool is_other_host;     /* of JUDGE_DENY: the request is not for the connection's host */
};

struct judge_decision judge(const struct policy *p, const struct range_site *site,
                            const struct judge_facts *facts);
/* Whether the address of a rule's forward or proxy may be dialled. */
bool judge_target_is_open(const struct range_site *site, const struct url *url,
                          const struct address *resolved);
