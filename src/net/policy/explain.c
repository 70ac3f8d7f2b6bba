// SPDX-License-Identifier: Apache-2.0
/*
 * Asks the same judge as the wall does, in two steps: first about the connection, which tells
 * whether the wall would have to look inside, then about the request. No name is resolved: if the
 * decision depends on the name's addresses, the answer says so.
 */
#include "net/policy/explain.h"

#include <assert.h>
#include <string.h>

static const char *const strengths[] = {
	[STRENGTH_REFUSED] = "refused", [STRENGTH_ADDRESS] = "address",   [STRENGTH_NAME] = "name",
	[STRENGTH_HOST] = "host",       [STRENGTH_VERIFIED] = "verified",
};
static_assert(ARRAY_SIZE(strengths) == STRENGTH_COUNT, "a strength has no name");

const char *explain_strength_name(enum explain_strength strength)
{
	return strengths[strength];
}

static enum explain_strength find_strength(const struct policy *p, const struct explanation *e,
                                           const struct judge_facts *facts, bool is_seen)
{
	bool is_by_name =
		e->decision.is_recorded || (e->decision.rule != JUDGE_NO_RULE &&
	                                    p->rules[e->decision.rule].match.n_domains > 0);

	if (!e->is_allowed)
		return STRENGTH_REFUSED;
	if (is_by_name && e->decision.rule != JUDGE_NO_RULE &&
	    p->rules[e->decision.rule].action == ACTION_SSH)
		return STRENGTH_NAME; /* by its address inside; its key is used only with that host
		                       */
	if (!is_by_name || facts->name_state != NAME_KNOWN || facts->protocol == PROTOCOL_OTHER)
		return STRENGTH_ADDRESS;
	if (facts->protocol == PROTOCOL_HTTP)
		return STRENGTH_HOST;
	return is_seen ? STRENGTH_VERIFIED : STRENGTH_NAME;
}

/* The wall asks the same when it dials where a rule leads. A name's addresses are not known here.
 */
static void judge_target(const struct policy *p, const struct range_site *site,
                         struct explanation *ret)
{
	const struct judge_decision *d = &ret->decision;
	const struct policy_rule *rule = d->rule == JUDGE_NO_RULE ? NULL : &p->rules[d->rule];
	const struct url *url = rule ? &rule->target.url : NULL;

	if (!rule || !ret->is_allowed ||
	    (rule->action != ACTION_FORWARD && rule->action != ACTION_PROXY))
		return;
	if (url->host.is_name) {
		ret->decision.outcome = JUDGE_NEED_ADDRESS;
	} else if (!judge_target_is_open(site, url, &url->host.address)) {
		ret->decision.outcome = JUDGE_DENY;
		ret->decision.closed = range_kind_of(site, &url->host.address);
		ret->is_allowed = false;
	}
}

static void judge_both(const struct policy *p, const struct range_site *site,
                       struct judge_facts *facts, const struct judge_request *request,
                       struct explanation *ret)
{
	bool is_seen;

	ret->decision = judge(p, site, facts);
	is_seen = ret->decision.outcome == JUDGE_NEED_REQUEST;
	if (is_seen) {
		facts->request = request;
		ret->decision = judge(p, site, facts);
	}
	ret->is_allowed = ret->decision.outcome != JUDGE_DENY;
	judge_target(p, site, ret);
	ret->strength = find_strength(p, ret, facts, is_seen);
}

int explain(const struct policy *p, const struct range_site *site, const char *url,
            const char *method, struct explanation *ret, struct err *err)
{
	struct judge_facts facts = {0};
	struct judge_request request = {.method = method};
	struct path path = {0};
	const char *why = NULL;
	struct url u;

	if (url_parse(url, strlen(url), &u, &why) < 0 ||
	    path_parse(u.path, u.path_len, &path, &why) < 0)
		return err_field(err, "url", "%s", why);
	facts.name_state = u.host.is_name ? NAME_KNOWN : NAME_NONE;
	facts.name = &u.host.name;
	facts.dialled = u.host.is_name ? NULL : &u.host.address;
	facts.port = u.port;
	facts.protocol = u.scheme == URL_HTTPS  ? PROTOCOL_TLS
	                 : u.scheme == URL_HTTP ? PROTOCOL_HTTP
	                                        : PROTOCOL_OTHER;
	request.host = &u.host;
	request.path = &path;
	request.query = u.query;
	request.query_len = u.query_len;
	judge_both(p, site, &facts, &request, ret);
	path_done(&path);
	return 0;
}
