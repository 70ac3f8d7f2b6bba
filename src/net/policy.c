// SPDX-License-Identifier: Apache-2.0
#include "net/policy.h"

#include "net/policy_json.h"

#include <assert.h>

static const char *const action_names[] = {
	[ACTION_DENY] = "deny",       [ACTION_ALLOW] = "allow", [ACTION_TRANSFORM] = "transform",
	[ACTION_FORWARD] = "forward", [ACTION_PROXY] = "proxy", [ACTION_RESPOND] = "respond",
};
static_assert(ARRAY_SIZE(action_names) == ACTION_COUNT, "an action has no name");

const char *const policy_text_names[] = {
	[TEXT_ANY] = "any",
	[TEXT_EXACT] = "exact",
	[TEXT_PREFIX] = "prefix",
	[TEXT_PATTERN] = "pattern",
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

bool policy_opens_tls(const struct policy *p)
{
	for (size_t i = 0; i < p->n_rules; i++)
		if (policy_rule_sees_requests(&p->rules[i]) &&
		    p->rules[i].match.protocol != PROTOCOL_HTTP)
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

static void free_pairs(struct policy_pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(pairs[i].name.text);
		free(pairs[i].value.text);
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
		free(m->paths[i].text);
	free(m->paths);
	free_pairs(m->query, m->n_query);
	free_pairs(m->headers, m->n_headers);
}

static void rule_done(struct policy_rule *rule)
{
	match_done(&rule->match);
	for (size_t i = 0; i < rule->n_headers; i++) {
		free(rule->headers[i].name);
		free_secret(rule->headers[i].value);
	}
	free(rule->headers);
	free(rule->url_text);
	free(rule->username);
	free_secret(rule->password);
	free(rule->content_type);
	free(rule->body);
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_rules; i++)
		rule_done(&p->rules[i]);
	free(p->rules);
	free(p);
}
