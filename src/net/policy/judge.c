// SPDX-License-Identifier: Apache-2.0
/*
 * A rule matches, does not match, or may match, if it needs a fact that is not known yet. Rules are
 * tried in order up to the first that matches. If no rule before it may match, it decides. If some
 * may, the outcome is still certain when they all agree with it: all deny, or all plainly allow.
 * Otherwise the judge asks for the cheapest missing fact: first the connection's first bytes, then
 * its requests, and last the name's addresses. So a name is not resolved for a request whose path
 * is denied anyway.
 *
 * A rule that allows does not match an address of a closed range unless it names that range; a rule
 * that denies has no such exception. A rule with ranges is compared with the address that it would
 * lead to: with domains the addresses that the wall resolves, without domains the address that the
 * guest dialled. A rule that denies is compared with both.
 */
#include "net/policy/judge_private.h"

#include <string.h>

enum verdict {
	NO,
	MAYBE,
	YES,
};

enum need {
	NEED_NAME = BIT(0),
	NEED_REQUEST = BIT(1),
	NEED_ADDRESS = BIT(2),
	NEED_NOTHING = BIT(3), /* the fact will not come: a DNS query has no port */
};

/* One rule compared with the facts. */
struct trial {
	const struct policy *policy;
	const struct policy_rule *rule;
	const struct range_site *site;
	const struct judge_facts *facts;
	unsigned needs;         /* for what may match */
	enum range_kind closed; /* at which it failed, or RANGE_PUBLIC */
};

static enum verdict unknown(struct trial *t, enum need need)
{
	t->needs |= need;
	return MAYBE;
}

static enum verdict try_name(struct trial *t)
{
	const struct policy_match *m = &t->rule->match;

	if (m->n_domains == 0)
		return YES;
	if (t->facts->name_state == NAME_UNKNOWN)
		return unknown(t, NEED_NAME);
	if (t->facts->name_state == NAME_NONE || hostname_is_local(t->facts->name))
		return NO;
	for (size_t i = 0; i < m->n_domains; i++)
		if (hostname_pattern_matches(&m->domains[i], t->facts->name))
			return YES;
	return NO;
}

static enum verdict try_port(struct trial *t)
{
	const struct policy_match *m = &t->rule->match;

	if (m->n_ports > 0 && t->facts->port == 0)
		return unknown(t, NEED_NOTHING);
	for (size_t i = 0; i < m->n_ports; i++)
		if (t->facts->port >= m->ports[i].first && t->facts->port <= m->ports[i].last)
			return YES;
	return m->n_ports == 0 ? YES : NO;
}

static enum verdict try_protocol(struct trial *t)
{
	enum policy_protocol wanted = t->rule->match.protocol;
	bool sees_requests = policy_rule_sees_requests(t->rule);

	if (t->rule->action == ACTION_SSH && t->facts->protocol != PROTOCOL_ANY)
		return t->facts->protocol == PROTOCOL_OTHER ? YES : NO;
	if (t->rule->action == ACTION_SSH)
		return unknown(t, NEED_NAME);
	if (wanted == PROTOCOL_ANY && !sees_requests)
		return YES;
	if (t->facts->protocol == PROTOCOL_ANY)
		return unknown(t, NEED_NAME);
	if (t->facts->protocol == PROTOCOL_OTHER)
		return NO;
	return wanted == PROTOCOL_ANY || wanted == t->facts->protocol ? YES : NO;
}

static enum verdict try_request(struct trial *t)
{
	/* In plain HTTP each request names its own host, so a rule about names must see each
	 * request. */
	bool is_by_host = t->facts->protocol == PROTOCOL_HTTP && t->rule->match.n_domains > 0;

	if (!policy_rule_sees_requests(t->rule) && !is_by_host)
		return YES;
	if (t->facts->protocol == PROTOCOL_ANY)
		return unknown(t, NEED_NAME);
	if (!t->facts->request)
		return unknown(t, NEED_REQUEST);
	return judge_request_matches(&t->rule->match, t->facts->request,
	                             t->rule->action == ACTION_DENY)
	               ? YES
	               : NO;
}

static bool is_in(const struct policy_match *m, const struct address *a)
{
	for (size_t i = 0; i < m->n_cidrs; i++)
		if (cidr_has(&m->cidrs[i], a))
			return true;
	return false;
}

/* An address that is not resolved yet cannot be denied. The rule that allows the name is judged
 * again with the address.
 */
static enum verdict try_denied_address(struct trial *t)
{
	const struct policy_match *m = &t->rule->match;
	const struct judge_facts *f = t->facts;

	if (m->n_cidrs == 0)
		return YES;
	return (f->resolved && is_in(m, f->resolved)) || (f->dialled && is_in(m, f->dialled)) ? YES
	                                                                                      : NO;
}

/* Where the rule leads: to the address, or to a target of its own. */
static enum judge_dial dial_of(const struct policy *p, const struct policy_rule *rule)
{
	if (rule->action == ACTION_FORWARD || rule->action == ACTION_RESPOND)
		return DIAL_NOTHING;
	if (policy_proxy_of(p, rule))
		return DIAL_PROXY;
	return rule->match.n_domains > 0 ? DIAL_NAME : DIAL_ADDRESS;
}

static enum verdict try_allowed_address(struct trial *t)
{
	const struct policy_match *m = &t->rule->match;
	const struct address *a = m->n_domains > 0 ? t->facts->resolved : t->facts->dialled;
	enum judge_dial dial = dial_of(t->policy, t->rule);

	if ((dial == DIAL_NOTHING && m->n_cidrs == 0) || (dial == DIAL_PROXY && m->n_domains > 0))
		return YES;
	if (!a) /* ranges alone let no name be resolved: it would be a way out by itself */
		return m->n_domains == 0 && m->n_cidrs > 0 ? NO : unknown(t, NEED_ADDRESS);
	if (m->n_cidrs > 0 && !is_in(m, a))
		return NO;
	if (dial != DIAL_NOTHING && (!range_is_open(t->site, a, m->cidrs, m->n_cidrs) ||
	                             range_is_daemon(t->site, a, t->facts->port))) {
		t->closed = range_kind_of(t->site, a);
		return NO;
	}
	return YES;
}

static enum verdict try_address(struct trial *t)
{
	return t->rule->action == ACTION_DENY ? try_denied_address(t) : try_allowed_address(t);
}

static enum verdict try_rule(struct trial *t)
{
	static enum verdict (*const tries[])(struct trial * t) = {try_name, try_port, try_protocol,
	                                                          try_request, try_address};
	enum verdict verdict = YES;

	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		enum verdict one = tries[i](t);

		if (one == NO)
			return NO;
		verdict = MIN(verdict, one);
	}
	return verdict;
}

/* What is known after all rules up to the one that matches. */
struct tally {
	size_t matched; /* JUDGE_NO_RULE: none */
	size_t first;   /* that matches or may */
	unsigned needs;
	bool may_deny, may_allow, may_do_more; /* those before it that may match */
	enum range_kind closed;
};

static struct tally count_rules(const struct policy *p, const struct range_site *site,
                                const struct judge_facts *facts)
{
	struct tally tally = {.matched = JUDGE_NO_RULE, .first = JUDGE_NO_RULE};

	for (size_t i = 0; i < p->n_rules && tally.matched == JUDGE_NO_RULE; i++) {
		struct trial t = {.policy = p, .rule = &p->rules[i], .site = site, .facts = facts};
		enum verdict verdict = try_rule(&t);

		if (tally.closed == RANGE_PUBLIC)
			tally.closed = t.closed;
		if (verdict == NO)
			continue;
		if (tally.first == JUDGE_NO_RULE)
			tally.first = i;
		if (verdict == YES) {
			tally.matched = i;
			break;
		}
		tally.needs |= t.needs;
		tally.may_deny |= t.rule->action == ACTION_DENY;
		tally.may_allow |= t.rule->action == ACTION_ALLOW;
		tally.may_do_more |= t.rule->action > ACTION_ALLOW;
	}
	return tally;
}

static enum judge_outcome outcome_of(unsigned needs)
{
	return needs & NEED_NAME      ? JUDGE_NEED_NAME
	       : needs & NEED_REQUEST ? JUDGE_NEED_REQUEST
	                              : JUDGE_NEED_ADDRESS;
}

static struct judge_decision decide(const struct policy *p, const struct tally *tally)
{
	enum policy_action action =
		tally->matched == JUDGE_NO_RULE ? ACTION_DENY : p->rules[tally->matched].action;
	bool may_allow = tally->may_allow || tally->may_do_more;
	struct judge_decision d = {.rule = tally->matched};

	if (action == ACTION_DENY && !may_allow) {
		d.closed = tally->matched == JUDGE_NO_RULE ? tally->closed : RANGE_PUBLIC;
		return d;
	}
	if (tally->needs == 0 ||
	    (action == ACTION_ALLOW && !tally->may_deny && !tally->may_do_more)) {
		d.outcome = JUDGE_ALLOW;
		d.dial = dial_of(p, &p->rules[tally->matched]);
		return d;
	}
	d.outcome = outcome_of(tally->needs);
	d.rule = tally->first;
	return d;
}

/* Turns a denial into an allowed, recorded connection, if the target is public. */
static struct judge_decision record(const struct policy *p, struct judge_decision d,
                                    const struct range_site *site, const struct judge_facts *facts)
{
	bool is_named = facts->name_state == NAME_KNOWN;
	bool is_told = is_named && p->proxy.url_text; /* the proxy resolves it */
	const struct address *a = is_named ? facts->resolved : facts->dialled;

	if (is_named && hostname_is_local(facts->name))
		return d;
	if (facts->name_state == NAME_UNKNOWN)
		d.outcome = JUDGE_NEED_NAME;
	else if (facts->protocol == PROTOCOL_HTTP && !facts->request)
		d.outcome = JUDGE_NEED_REQUEST;
	else if (!a && !is_told)
		d.outcome = JUDGE_NEED_ADDRESS;
	else if (is_told || range_is_open(site, a, NULL, 0))
		d = (struct judge_decision){.outcome = JUDGE_ALLOW,
		                            .rule = d.rule,
		                            .dial = p->proxy.url_text ? DIAL_PROXY
		                                    : is_named        ? DIAL_NAME
		                                                      : DIAL_ADDRESS,
		                            .is_recorded = true};
	else
		d.closed = range_kind_of(site, a);
	return d;
}

struct judge_decision judge(const struct policy *p, const struct range_site *site,
                            const struct judge_facts *facts)
{
	struct tally tally;
	struct judge_decision d;

	if (facts->request && !judge_request_fits(facts))
		return (struct judge_decision){.rule = JUDGE_NO_RULE, .is_other_host = true};
	tally = count_rules(p, site, facts);
	d = decide(p, &tally);
	if (p->mode == POLICY_RECORD && d.outcome == JUDGE_DENY)
		return record(p, d, site, facts);
	return d;
}

bool judge_target_is_open(const struct range_site *site, const struct url *url,
                          const struct address *resolved)
{
	struct cidr itself = {.first = url->host.address, .prefix = url->host.address.bits};

	/* An address in a policy is named by it; the addresses behind a name are not. */
	return range_is_open(site, resolved, &itself, url->host.is_name ? 0 : 1) &&
	       !range_is_daemon(site, resolved, url->port);
}
