// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a policy from JSON: the outer object, and the lists "allow" and "deny", which are short for
 * rules. Lists are counted before they are allocated, so that POLICY_ENTRIES_MAX bounds the memory
 * and not the size of the request.
 */
#include "net/policy/identity_reference.h"
#include "net/policy/policy_json.h"

#include <string.h>

#define CONNECTIONS_MAX      65535
#define BYTES_PER_SECOND_MIN 1024
#define BYTES_PER_SECOND_MAX UINT64_C(1000000000000)

int policy_refuse_entry(struct policy_reader *r, const char *field, size_t i, const char *text,
                        const char *why)
{
	char path[FIELD_SIZE];

	(void)snprintf(path, sizeof(path), "%s[%zu]", field, i);
	return text ? err_field(r->err, path, "'%.100s' %s", text, why)
	            : err_field(r->err, path, "%s", why);
}

int policy_count(struct policy_reader *r, const char *field, size_t n)
{
	r->n_entries += n;
	if (r->n_entries > POLICY_ENTRIES_MAX)
		return err_field(r->err, field, "the policy's lists have more than %d entries",
		                 POLICY_ENTRIES_MAX);
	return 0;
}

int policy_read_domain(struct policy_reader *r, const char *field, size_t i, const json_t *value,
                       struct hostname_pattern *ret)
{
	const char *text = json_string_value(value), *why = NULL;

	if (!text)
		return policy_refuse_entry(r, field, i, NULL, "must be a string");
	if (hostname_pattern_parse(text, json_string_length(value), ret, &why) < 0)
		return policy_refuse_entry(r, field, i, text, why);
	if (hostname_is_local(&ret->name))
		return policy_refuse_entry(r, field, i, text,
		                           "is the sandbox itself, which needs no rule");
	return 0;
}

int policy_read_cidr(struct policy_reader *r, const char *field, size_t i, const json_t *value,
                     struct cidr *ret)
{
	const char *text = json_string_value(value), *why = NULL;

	if (!text)
		return policy_refuse_entry(r, field, i, NULL, "must be a string");
	if (cidr_parse(text, json_string_length(value), ret, &why) < 0)
		return policy_refuse_entry(r, field, i, text, why);
	return 0;
}

/* A new rule at the end; rules has room for all that are to come. */
static struct policy_rule *add_rule(struct policy *p, enum policy_action action)
{
	struct policy_rule *rule = &p->rules[p->n_rules++];

	rule->action = action;
	return rule;
}

bool policy_text_is_range(const char *text)
{
	return strpbrk(text, ":/") || text[strspn(text, "0123456789.")] == '\0';
}

static bool is_range(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && policy_text_is_range(text);
}

/* Makes one rule of those entries of "allow" or "deny" that are ranges, or of those that are
 * not. */
static int read_short(struct policy_reader *r, const json_t *list, const char *field,
                      enum policy_action action, bool ranges, struct policy *p)
{
	size_t n = json_array_size(list);
	struct policy_match *m;
	int result = 0;

	for (size_t i = 0; i < n && is_range(json_array_get(list, i)) != ranges; i++)
		if (i + 1 == n)
			return 0;
	if (n == 0)
		return 0;
	m = &add_rule(p, action)->match;
	if (ranges)
		m->cidrs = xnew0n(struct cidr, n);
	else
		m->domains = xnew0n(struct hostname_pattern, n);
	for (size_t i = 0; i < n && result == 0; i++) {
		const json_t *value = json_array_get(list, i);

		if (is_range(value) != ranges)
			continue;
		if (ranges)
			result = policy_read_cidr(r, field, i, value, &m->cidrs[m->n_cidrs++]);
		else
			result =
				policy_read_domain(r, field, i, value, &m->domains[m->n_domains++]);
	}
	return result;
}

static int read_short_list(struct policy_reader *r, const json_t *list, const char *name,
                           enum policy_action action, struct policy *p)
{
	char field[FIELD_SIZE];
	int result;

	(void)snprintf(field, sizeof(field), "%s.%s", r->prefix, name);
	result = policy_count(r, field, json_array_size(list));
	if (result == 0)
		result = read_short(r, list, field, action, /* ranges= */ false, p);
	if (result == 0)
		result = read_short(r, list, field, action, /* ranges= */ true, p);
	return result;
}

static int read_rule(struct policy_reader *r, const json_t *value, size_t i, struct policy *p)
{
	struct policy_rule *rule = add_rule(p, ACTION_DENY);
	json_t *match = NULL, *action = NULL;
	const struct json_field fields[] = {
		{"match", JSON_FIELD_OBJECT, &match},
		{"action", JSON_FIELD_ANY, &action, .required = true},
	};
	char prefix[FIELD_SIZE], field[FIELD_SIZE];
	int result;

	(void)snprintf(field, sizeof(field), "%s.rules[%zu]", r->prefix, i);
	if (!json_is_object(value))
		return err_field(r->err, field, "must be an object");
	(void)snprintf(prefix, sizeof(prefix), "%s.rules[%zu].", r->prefix, i);
	result = json_read(value, prefix, fields, ARRAY_SIZE(fields), r->err);
	(void)snprintf(field, sizeof(field), "%s.rules[%zu].action", r->prefix, i);
	if (result == 0)
		result = policy_read_action(r, action, field, rule);
	(void)snprintf(prefix, sizeof(prefix), "%s.rules[%zu].match.", r->prefix, i);
	if (result == 0 && match)
		result = policy_read_match(r, match, prefix, &rule->match);
	if (result == 0 && rule->action == ACTION_SSH)
		return policy_check_ssh(r, prefix, rule);
	if (result < 0 || rule->action != ACTION_TRANSFORM)
		return result;
	/* A secret is sent only to named hosts, and unless the rule says otherwise only over
	 * verified TLS. */
	(void)snprintf(field, sizeof(field), "%s.rules[%zu].match.domains", r->prefix, i);
	if (rule->match.n_domains == 0)
		return err_field(r->err, field, "is required where headers are set");
	if (rule->match.protocol == PROTOCOL_ANY)
		rule->match.protocol = PROTOCOL_TLS;
	return 0;
}

/* The rules of the identity, with the reference in place of each token. */
static int add_identity_rules(struct policy_reader *r, struct policy *p)
{
	int result = 0;

	for (size_t i = 0; result == 0 && i <= p->n_audiences; i++) {
		auto_json json_t *rule = i < p->n_audiences
		                                 ? identity_rule(p->audiences[i], p->audiences[i])
		                                 : identity_last_rule();

		result = read_rule(r, rule, i, p);
	}
	p->n_identity_rules = p->n_rules;
	return result;
}

static int read_identity(struct policy_reader *r, const json_t *value, struct policy *p)
{
	json_t *list = NULL;
	const struct json_field fields[] = {
		{"audiences", JSON_FIELD_ARRAY, &list, .required = true, .min = 1,
	         .max = IDENTITY_AUDIENCES_MAX},
	};
	char field[FIELD_SIZE];

	(void)snprintf(field, sizeof(field), "%s.identity.", r->prefix);
	if (json_read(value, field, fields, ARRAY_SIZE(fields), r->err) < 0)
		return -EINVAL;
	(void)snprintf(field, sizeof(field), "%s.identity.audiences", r->prefix);
	p->audiences = xnew0n(char *, json_array_size(list));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (!text || strlen(text) != json_string_length(json_array_get(list, i)) ||
		    !audience_is_valid(text))
			return policy_refuse_entry(r, field, i, text,
			                           "must be 1 to 255 letters that a URL may have");
		if (policy_names_audience(p, text))
			return policy_refuse_entry(r, field, i, text, "is given twice");
		p->audiences[p->n_audiences++] = xstrdup(text);
	}
	return add_identity_rules(r, p);
}

static int read_limits(struct policy_reader *r, const json_t *value, struct policy *p)
{
	const struct json_field fields[] = {
		{"connections", JSON_FIELD_U64, &p->connections_max, .min = 1,
	         .max = CONNECTIONS_MAX},
		{"bytes_per_second", JSON_FIELD_U64, &p->bytes_per_second,
	         .min = BYTES_PER_SECOND_MIN, .max = BYTES_PER_SECOND_MAX},
	};
	char prefix[FIELD_SIZE];

	(void)snprintf(prefix, sizeof(prefix), "%s.limits.", r->prefix);
	return json_read(value, prefix, fields, ARRAY_SIZE(fields), r->err);
}

static int read_mode(struct policy_reader *r, const char *mode, struct policy *p)
{
	char field[FIELD_SIZE];

	(void)snprintf(field, sizeof(field), "%s.mode", r->prefix);
	if (strcmp(mode, "enforce") != 0 && strcmp(mode, "record") != 0)
		return err_field(r->err, field, "must be 'enforce' or 'record'");
	p->mode = mode[0] == 'r' ? POLICY_RECORD : POLICY_ENFORCE;
	return 0;
}

static int read_refusals(struct policy_reader *r, const char *refusals, struct policy *p)
{
	char field[FIELD_SIZE];

	(void)snprintf(field, sizeof(field), "%s.refusals", r->prefix);
	p->resets = strcmp(refusals, "reset") == 0;
	if (!p->resets && strcmp(refusals, "answer") != 0)
		return err_field(r->err, field, "must be 'answer' or 'reset'");
	return 0;
}

/* A proxy resolves names itself, so ranges could not be enforced for them. */
static int check_proxied(struct policy_reader *r, const struct policy *p)
{
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];

		if (policy_proxy_of(p, rule) && rule->match.n_domains > 0 &&
		    rule->match.n_cidrs > 0)
			return err_field(r->err, r->prefix,
			                 "a rule has domains and cidrs, and leads through a proxy, "
			                 "where a name's addresses are not known");
	}
	return 0;
}

static int read_object(struct policy_reader *r, const json_t *value, struct policy *p)
{
	json_t *rules = NULL, *allow = NULL, *deny = NULL, *limits = NULL, *proxy = NULL;
	json_t *identity = NULL;
	const char *mode = "enforce", *refusals = "answer";
	const struct json_field fields[] = {
		{"mode", JSON_FIELD_STRING, &mode},
		{"refusals", JSON_FIELD_STRING, &refusals},
		{"rules", JSON_FIELD_ARRAY, &rules, .max = POLICY_RULES_MAX},
		{"allow", JSON_FIELD_ARRAY, &allow},
		{"deny", JSON_FIELD_ARRAY, &deny},
		{"limits", JSON_FIELD_OBJECT, &limits},
		{"proxy", JSON_FIELD_OBJECT, &proxy},
		{"identity", JSON_FIELD_OBJECT, &identity},
	};
	char prefix[FIELD_SIZE];
	int result;

	(void)snprintf(prefix, sizeof(prefix), "%s.", r->prefix);
	result = json_read(value, prefix, fields, ARRAY_SIZE(fields), r->err);
	if (result < 0)
		return result;
	/* Two more for each of the short lists, and those of the identity. */
	p->rules =
		xnew0n(struct policy_rule, json_array_size(rules) + 4 + IDENTITY_AUDIENCES_MAX + 1);
	result = read_mode(r, mode, p);
	if (result == 0)
		result = read_refusals(r, refusals, p);
	if (result == 0 && identity)
		result = read_identity(r, identity, p);
	if (result == 0 && deny)
		result = read_short_list(r, deny, "deny", ACTION_DENY, p);
	for (size_t i = 0; i < json_array_size(rules) && result == 0; i++)
		result = read_rule(r, json_array_get(rules, i), i, p);
	if (result == 0 && allow)
		result = read_short_list(r, allow, "allow", ACTION_ALLOW, p);
	if (result == 0 && limits)
		result = read_limits(r, limits, p);
	(void)snprintf(prefix, sizeof(prefix), "%s.proxy.", r->prefix);
	if (result == 0 && proxy)
		result = policy_read_proxy(r, proxy, prefix, &p->proxy);
	if (result == 0)
		result = check_proxied(r, p);
	if (result == 0 && p->n_rules > POLICY_RULES_MAX)
		return err_field(r->err, r->prefix, "has more than %d rules", POLICY_RULES_MAX);
	return result;
}

int policy_read(const json_t *value, const char *prefix, struct policy **ret, struct err *err)
{
	struct policy_reader r = {.prefix = prefix, .err = err};
	auto_call(policy_freep) struct policy *p = policy_new();
	const char *word = json_string_value(value);
	int result;

	if (word && strcmp(word, "allow-all") == 0) {
		p->rules = xnew0(struct policy_rule);
		(void)add_rule(p, ACTION_ALLOW);
	} else if (json_is_object(value)) {
		result = read_object(&r, value, p);
		if (result < 0)
			return result;
	} else if (!word || strcmp(word, "deny-all") != 0) {
		return err_field(err, prefix, "must be 'deny-all', 'allow-all' or an object");
	}
	*ret = take_ptr(p);
	return 0;
}
