// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a sandbox may reach: a list of rules. The first rule that matches decides; if none matches,
 * the connection is denied. So an empty list denies everything, and one rule that allows everything
 * opens the public internet (closed ranges stay closed: net/match/range.h).
 *
 *	"deny-all"	"allow-all"
 *	{"mode": "enforce" or "record",
 *	 "refusals": "answer" or "reset",	what a denied request gets: words, or nothing
 *	 "deny": [name or range, …],		rules before all others
 *	 "rules": [{"match": {…}, "action": …}, …],
 *	 "allow": [name or range, …],		rules behind all others
 *	 "proxy": {"url": …, "username": …, "password": …},	all connections go through it
 *	 "identity": {"audiences": [text, …]},	rules before even those (identity_reference.h)
 *	 "limits": {"connections": 100, "bytes_per_second": 1000000}}
 *
 * match: all given conditions must hold; in a list one entry must match (in query and headers,
 * all).
 *	domains [pattern], cidrs [range], ports [443, "8000-8999"], protocol "tls" or "http",
 *	methods [word], paths [text], query and headers [{"name": text, "value": text}]
 *	where text is {"exact": …}, {"prefix": …}, {"pattern": …} (net/match/glob.h) or {"regex": …}
 *	(net/match/regex.h); a string is exact.
 * action: "allow", "deny",
 *	{"transform": {"headers": {name: value}, "scrub": [name, …]}}
 *						allow; the wall sets these fields, and
 *						removes those of scrub from replies
 *						(net/policy/scrub.h)
 *	{"forward": {"url": …}}				the request goes there instead
 *	{"proxy": {"url": …, "username": …, "password": …}}	the connection goes through it
 *	{"respond": {"status": …, "headers": {…}, "content_type": …, "body": …}}
 *	{"ssh": {"key": text, "users": [name, …], "host_keys": [text, …]}}
 *						allow; programs inside log in there by SSH with a
 *						key that stays outside (ssh_signer.h)
 *
 * A rule with domains leads to the name: the wall resolves it and dials the result, whatever
 * address the guest dialled. A rule without domains leads to the address that the guest dialled. In
 * a rule with domains and ranges, the name's addresses must be in the ranges; that is also how a
 * name can reach a closed range. A proxy is given the name and resolves it. Values of headers,
 * passwords and keys are secrets: they are written back only on request.
 *
 * A policy is accepted as a whole or refused with the name of the bad entry
 * ("policy.rules[3].match.cidrs[0]"). Once read it does not change, and it borrows nothing.
 */
#include "base/err.h"
#include "base/json/json.h"
#include "net/match/address.h"
#include "net/match/hostname.h"
#include "net/match/url.h"
#include "net/ssh/host_key.h"
#include "net/ssh/private_key.h"

#define POLICY_RULES_MAX    512
#define POLICY_ENTRIES_MAX  4096 /* of all lists of all rules together */
#define POLICY_PATTERNS_MAX 256  /* likewise: each costs time per byte of each request */
#define POLICY_STATES_MAX   2048 /* of all its regular expressions, likewise */
#define POLICY_SCRUBS_MAX   8    /* likewise: each costs time per byte of each reply */
#define POLICY_SSH_MAX      16   /* rules with a key: each is read whenever the wall is told */
#define POLICY_SSH_HOSTS    64   /* names of all of them together */

enum policy_mode {
	POLICY_ENFORCE,
	POLICY_RECORD, /* a denied connection is allowed, if it is public, and recorded */
};

enum policy_protocol {
	PROTOCOL_ANY, /* in rules; of a connection: not known yet */
	PROTOCOL_TLS,
	PROTOCOL_HTTP,  /* in the clear */
	PROTOCOL_OTHER, /* of a connection only */
};

enum policy_action {
	ACTION_DENY,
	ACTION_ALLOW,
	ACTION_TRANSFORM,
	ACTION_FORWARD,
	ACTION_PROXY,
	ACTION_RESPOND,
	ACTION_SSH,
	ACTION_COUNT,
};

enum policy_text_kind {
	TEXT_ANY,
	TEXT_EXACT,
	TEXT_PREFIX,
	TEXT_PATTERN,
	TEXT_REGEX,
	TEXT_KIND_COUNT,
};

struct policy_text {
	enum policy_text_kind kind;
	char *text;          /* NULL of TEXT_ANY */
	struct regex *regex; /* of TEXT_REGEX */
};

struct policy_pair {
	struct policy_text name, value;
};

struct policy_ports {
	uint16_t first, last;
};

struct policy_header {
	char *name, *value; /* the name in small letters */
	bool is_scrubbed;   /* of transform: replies that repeat the value are changed */
};

struct policy_match {
	struct hostname_pattern *domains;
	size_t n_domains;
	struct cidr *cidrs;
	size_t n_cidrs;
	struct policy_ports *ports;
	size_t n_ports;
	enum policy_protocol protocol;
	char **methods;
	size_t n_methods;
	struct policy_text *paths;
	size_t n_paths;
	struct policy_pair *query;
	size_t n_query;
	struct policy_pair *headers;
	size_t n_headers;
};

/* Where a connection goes instead, or through. */
struct policy_target {
	char *url_text;            /* NULL: none */
	struct url url;            /* its paths are borrowed from url_text */
	char *username, *password; /* of a proxy, or NULL */
};

/* A key that stays outside, and what it may be used for. */
struct policy_ssh {
	char *key_text;              /* NULL: none; or secret://NAME, or the key itself */
	struct ssh_private_key *key; /* NULL while it is a reference */
	struct ssh_host_key **host_keys;
	size_t n_host_keys;
	char **users; /* to log in as */
	size_t n_users;
};

struct policy_rule {
	struct policy_match match;
	enum policy_action action;
	struct policy_header *headers; /* of transform and respond */
	size_t n_headers;
	struct policy_target target; /* of forward and proxy */
	unsigned status;             /* of respond */
	char *content_type, *body;   /* likewise, or NULL */
	struct policy_ssh ssh;       /* of ssh */
};

struct policy {
	enum policy_mode mode;
	bool resets;               /* what it denies gets no answer */
	struct policy_rule *rules; /* the first n_identity_rules are those of audiences */
	size_t n_rules, n_identity_rules;
	char **audiences; /* that the code inside may have tokens for */
	size_t n_audiences;
	struct policy_target proxy; /* for all connections whose rule has none of its own */
	uint64_t connections_max;   /* 0: the operator's */
	uint64_t bytes_per_second;  /* likewise */
};

/* prefix names the value in errors ("policy"). On success the caller owns *ret. */
must_check int policy_read(const json_t *value, const char *prefix, struct policy **ret,
                           struct err *err);
struct policy *policy_new(void); /* denies everything */
/*
 * A copy of the policy with one more host, a name or a range, on one port (0: all), after all of
 * its rules. A host that it already has is not added again. On success the caller owns *ret.
 */
must_check int policy_allow(const struct policy *p, const char *host, uint16_t port,
                            struct policy **ret, struct err *err);
bool policy_text_is_range(const char *text); /* else it is a name, valid or not */
void policy_free(struct policy *p);
DEFINE_FREEP(struct policy, policy_free)

enum policy_secrets {
	SECRETS_HIDDEN, /* "<redacted>" for each, in replies */
	SECRETS_SHOWN,  /* for the store, and for the wall */
};

/* The canonical form. With secrets shown, policy_read() of it gives the same policy. */
void policy_write(const struct policy *p, struct json_writer *w, const char *name,
                  enum policy_secrets secrets);

/* The number of a rule as its author counts them; -1: it is one of the identity's. */
ssize_t policy_rule_number(const struct policy *p, size_t rule);
/* Whether the policy names the audience: in its list, or in a header that a rule sets. */
bool policy_names_audience(const struct policy *p, const char *audience); /* NULL: any */
/* Whether a rule cannot decide without seeing requests, so that TLS has to be terminated for it. */
bool policy_rule_sees_requests(const struct policy_rule *rule);
/* Whether it names the host, whatever its other conditions are. */
bool policy_rule_is_about(const struct policy_rule *rule, const struct hostname *name,
                          uint16_t port);
/* from may be NULL, which means no target; *to must be zeroed or a former target. */
void policy_target_copy(struct policy_target *to, const struct policy_target *from);
void policy_target_done(struct policy_target *t); /* twice is fine */
bool policy_target_is_equal(const struct policy_target *a, const struct policy_target *b);
/*
 * Whether rules lead the name's connections to a proxy, a forward or a fixed reply, and no rule
 * leads them to an address. Then the name need not have an address at all.
 */
bool policy_leads_elsewhere(const struct policy *p, const struct hostname *name);
/* The proxy for connections of the rule, or NULL. rule is NULL when recording without one. */
const struct policy_target *policy_proxy_of(const struct policy *p, const struct policy_rule *rule);
bool policy_opens(const struct policy *p);      /* whether anything can pass: not deny-all */
bool policy_opens_tls(const struct policy *p);  /* whether any of its rules does */
bool policy_allows_all(const struct policy *p); /* the public internet, by one rule */
/* Whether programs inside have to trust the wall's issuer: to be looked into, or to be told by TLS
 * that what they want is denied. */
bool policy_needs_trust(const struct policy *p);
const char *policy_action_name(enum policy_action action); /* "allow" */

/*
 * SSH says no name in its first bytes. So each name of a rule with a key has a place, and its own
 * address inside by that place, which tells the wall the name (wall/stub.c).
 */
bool policy_has_ssh(const struct policy *p);
ssize_t policy_ssh_place(const struct policy *p, const struct hostname *name); /* -1: none */
/* The name at a place, if its rule is about that port; else NULL. */
const struct hostname *policy_ssh_name(const struct policy *p, size_t place, uint16_t port);
/* The host keys of all rules, as ssh reads them in known_hosts. */
must_check int policy_put_known_hosts(const struct policy *p, struct buf *out);
