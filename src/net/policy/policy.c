// SPDX-License-Identifier: Apache-2.0
#include "net/policy/policy.h"

#include "net/match/regex.h"
#include "net/policy/identity_reference.h"
#include "net/policy/policy_json.h"

#include <assert.h>
#include <string.h>

static const char *const action_names[] = {
	[ACTION_DENY] = "deny",       [ACTION_ALLOW] = "allow", [ACTION_TRANSFORM] = "transform",
	[ACTION_FORWARD] = "forward", [ACTION_PROXY] = "proxy", [ACTION_RESPOND] = "respond",
	[ACTION_SSH] = "ssh",
};
static_assert(ARRAY_SIZE(action_names) == ACTION_COUNT, "an action has no name");

const char *const policy_text_names[] = {
	[TEXT_ANY] = "any",         [TEXT_EXACT] = "exact", [TEXT_PREFIX] = "prefix",
	[TEXT_PATTERN] = "pattern", [TEXT_REGEX] = "regex",
};

const char *policy_action_name(enum policy_action action)
{
	return action_names[action];
}

bool policy_rule_sees_requests(const struct policy_rule *rule)
{
	const struct policy_match *m = &rule->match;

	return m->n_methods > 0 || m->n_paths > 0 || m->n_query > 0 || m->n_headers > 0 ||
	       rule->action == ACTION_TRANSFORM || rule->action == ACTION_FORWARD ||
	       rule->action == ACTION_RESPOND;
}

const struct policy_target *policy_proxy_of(const struct policy *p, const struct policy_rule *rule)
{
	if (rule && rule->action == ACTION_PROXY)
		return &rule->target;
	if (!p->proxy.url_text || (rule && rule->action != ACTION_ALLOW &&
	                           rule->action != ACTION_TRANSFORM && rule->action != ACTION_SSH))
		return NULL;
	return &p->proxy;
}

static bool has_domain(const struct policy_match *m, const struct hostname *name)
{
	for (size_t i = 0; i < m->n_domains; i++)
		if (hostname_pattern_matches(&m->domains[i], name))
			return true;
	return false;
}

static bool has_port(const struct policy_match *m, uint16_t port)
{
	for (size_t i = 0; i < m->n_ports; i++)
		if (port >= m->ports[i].first && port <= m->ports[i].last)
			return true;
	return m->n_ports == 0;
}

bool policy_rule_is_about(const struct policy_rule *rule, const struct hostname *name,
                          uint16_t port)
{
	return has_domain(&rule->match, name) && has_port(&rule->match, port);
}

bool policy_leads_elsewhere(const struct policy *p, const struct hostname *name)
{
	/* No server knows that name: what is allowed beside its rules leads nowhere. */
	const bool is_ours = strcmp(name->text, IDENTITY_HOST) == 0;
	bool is_led = false;

	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];

		if (rule->action != ACTION_DENY && rule->match.n_domains == 0 && !is_ours)
			return false;
		if (has_domain(&rule->match, name))
			is_led |= rule->action == ACTION_FORWARD ||
			          rule->action == ACTION_RESPOND || policy_proxy_of(p, rule);
	}
	return is_led;
}

bool policy_opens(const struct policy *p)
{
	return p->n_rules > 0 || p->mode != POLICY_ENFORCE;
}

bool policy_opens_tls(const struct policy *p)
{
	for (size_t i = 0; i < p->n_rules; i++)
		if (policy_rule_sees_requests(&p->rules[i]) &&
		    p->rules[i].match.protocol != PROTOCOL_HTTP)
			return true;
	return false;
}

bool policy_allows_all(const struct policy *p)
{
	const struct policy_rule *only = p->n_rules == 1 ? &p->rules[0] : NULL;

	return only && only->action == ACTION_ALLOW && only->match.n_domains == 0 &&
	       only->match.n_cidrs == 0 && only->match.n_ports == 0 &&
	       only->match.protocol == PROTOCOL_ANY && !policy_rule_sees_requests(only);
}

bool policy_needs_trust(const struct policy *p)
{
	return policy_opens_tls(p) ||
	       (p->mode == POLICY_ENFORCE && p->n_rules > 0 && !policy_allows_all(p));
}

ssize_t policy_rule_number(const struct policy *p, size_t rule)
{
	return rule < p->n_identity_rules ? -1 : (ssize_t)(rule - p->n_identity_rules);
}

static bool rule_names_audience(const struct policy_rule *rule, const char *audience)
{
	for (size_t i = 0; rule->action == ACTION_TRANSFORM && i < rule->n_headers; i++) {
		const char *named = identity_reference_audience(rule->headers[i].value);

		if (named && (!audience || strcmp(named, audience) == 0))
			return true;
	}
	return false;
}

bool policy_names_audience(const struct policy *p, const char *audience)
{
	for (size_t i = 0; i < p->n_audiences; i++)
		if (!audience || strcmp(p->audiences[i], audience) == 0)
			return true;
	for (size_t i = 0; i < p->n_rules; i++)
		if (rule_names_audience(&p->rules[i], audience))
			return true;
	return false;
}

struct policy *policy_new(void)
{
	return xnew0(struct policy);
}

static void free_secret(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

static void text_done(struct policy_text *t)
{
	free(t->text);
	regex_free(t->regex);
}

static void free_pairs(struct policy_pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		text_done(&pairs[i].name);
		text_done(&pairs[i].value);
	}
	free(pairs);
}

static void match_done(struct policy_match *m)
{
	free(m->domains);
	free(m->cidrs);
	free(m->ports);
	for (size_t i = 0; i < m->n_methods; i++)
		free(m->methods[i]);
	free(m->methods);
	for (size_t i = 0; i < m->n_paths; i++)
		text_done(&m->paths[i]);
	free(m->paths);
	free_pairs(m->query, m->n_query);
	free_pairs(m->headers, m->n_headers);
}

void policy_target_done(struct policy_target *t)
{
	free(t->url_text);
	free(t->username);
	free_secret(t->password);
	*t = (struct policy_target){0};
}

void policy_target_copy(struct policy_target *to, const struct policy_target *from)
{
	policy_target_done(to);
	if (!from)
		return;
	to->url_text = xstrdup(from->url_text);
	to->username = from->username ? xstrdup(from->username) : NULL;
	to->password = from->password ? xstrdup(from->password) : NULL;
	if (url_parse(to->url_text, strlen(to->url_text), &to->url, NULL) < 0)
		abort(); /* it was read once */
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool policy_target_is_equal(const struct policy_target *a, const struct policy_target *b)
{
	return is_same_text(a->url_text, b ? b->url_text : NULL) &&
	       is_same_text(a->username, b ? b->username : NULL) &&
	       is_same_text(a->password, b ? b->password : NULL);
}

static void rule_done(struct policy_rule *rule)
{
	match_done(&rule->match);
	for (size_t i = 0; i < rule->n_headers; i++) {
		free(rule->headers[i].name);
		free_secret(rule->headers[i].value);
	}
	free(rule->headers);
	policy_target_done(&rule->target);
	free(rule->content_type);
	free_secret(rule->body); /* of the identity's rules, in the wall */
	free_secret(rule->ssh.key_text);
	ssh_private_key_free(rule->ssh.key);
	for (size_t i = 0; i < rule->ssh.n_host_keys; i++)
		ssh_host_key_free(rule->ssh.host_keys[i]);
	free(rule->ssh.host_keys);
	for (size_t i = 0; i < rule->ssh.n_users; i++)
		free(rule->ssh.users[i]);
	free(rule->ssh.users);
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_rules; i++)
		rule_done(&p->rules[i]);
	free(p->rules);
	for (size_t i = 0; i < p->n_audiences; i++)
		free(p->audiences[i]);
	free(p->audiences);
	policy_target_done(&p->proxy);
	free(p);
}
