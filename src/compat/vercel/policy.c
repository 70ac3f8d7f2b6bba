// SPDX-License-Identifier: Apache-2.0
/*
 * The native policy and the reply are both made from the requested form, so a native policy is
 * never converted back. Order: denied ranges first, since they override every allow; then the rules
 * of each domain in their order, followed by a rule that allows the rest of that domain; then
 * allowed ranges. A domain without rules allows TLS by name, but not plain HTTP, as with Vercel.
 */
#include "compat/vercel/policy.h"

#include "net/policy/policy.h"

#include <string.h>

static const char *mode_of(const json_t *theirs)
{
	return json_string_value(json_object_get(theirs, "mode"));
}

static int check_list(const json_t *list, const char *field, struct err *err)
{
	if (list && !json_is_array(list))
		return err_field(err, field, "must be an array of strings");
	for (size_t i = 0; i < json_array_size(list); i++)
		if (!json_is_string(json_array_get(list, i)))
			return err_field(err, field, "must be an array of strings");
	return 0;
}

static json_t *copy_or(const json_t *value, json_t *fallback)
{
	if (!value)
		return fallback;
	json_decref(fallback);
	return json_deep_copy(value);
}

static json_t *rules_of(json_t *allow, const char *domain)
{
	json_t *rules = json_object_get(allow, domain);

	if (!rules) {
		rules = json_array();
		(void)json_object_set_new(allow, domain, rules);
	}
	return rules;
}

static json_t *take_match(const json_t *from)
{
	return json_deep_copy(json_object_get(from, "match"));
}

/* {"mode": "custom", allowedDomains, allowedCIDRs, deniedCIDRs, injectionRules, forwardRules} */
static int read_custom(const json_t *value, json_t **ret, struct err *err)
{
	const json_t *domains = json_object_get(value, "allowedDomains");
	const json_t *inject = json_object_get(value, "injectionRules");
	const json_t *forward = json_object_get(value, "forwardRules");
	auto_json json_t *allow = json_object();
	int r = check_list(domains, "networkPolicy.allowedDomains", err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < json_array_size(domains); i++)
		(void)rules_of(allow, json_string_value(json_array_get(domains, i)));
	for (size_t i = 0; i < json_array_size(inject) + json_array_size(forward); i++) {
		bool is_forward = i >= json_array_size(inject);
		const json_t *from = is_forward
		                             ? json_array_get(forward, i - json_array_size(inject))
		                             : json_array_get(inject, i);
		const char *domain = json_string_value(json_object_get(from, "domain"));
		auto_json json_t *rule = json_object();
		const json_t *what = json_object_get(from, is_forward ? "forwardURL" : "headers");

		if (!domain || !what)
			return err_field(err, "networkPolicy",
			                 "a rule needs a domain, and headers or a forwardURL");
		(void)json_object_set_new_nocheck(rule, "match", take_match(from));
		if (is_forward)
			(void)json_object_set_new(rule, "forwardURL", json_deep_copy(what));
		else
			(void)json_object_set_new(
				rule, "transform",
				json_pack("[{s:o}]", "headers", json_deep_copy(what)));
		(void)json_array_append(rules_of(allow, domain), rule);
	}
	*ret = json_pack("{s:O, s:{s:o, s:o}}", "allow", allow, "subnets", "allow",
	                 copy_or(json_object_get(value, "allowedCIDRs"), json_array()), "deny",
	                 copy_or(json_object_get(value, "deniedCIDRs"), json_array()));
	return *ret ? 0 : err_field(err, "networkPolicy", "is not one");
}

static int read_object(const json_t *value, json_t **ret, struct err *err)
{
	const json_t *allow = json_object_get(value, "allow");
	const json_t *subnets = json_object_get(value, "subnets");
	int r = 0;

	if (subnets && !json_is_object(subnets))
		return err_field(err, "networkPolicy.subnets", "must be an object");
	if (allow && !json_is_object(allow))
		r = check_list(allow, "networkPolicy.allow", err);
	if (r == 0)
		r = check_list(json_object_get(subnets, "allow"), "networkPolicy.subnets.allow",
		               err);
	if (r == 0)
		r = check_list(json_object_get(subnets, "deny"), "networkPolicy.subnets.deny", err);
	if (r < 0)
		return r;
	*ret = json_pack("{s:o, s:o}", "allow", copy_or(allow, json_array()), "subnets",
	                 copy_or(subnets, json_object()));
	return 0;
}

int policy_read_theirs(const json_t *value, json_t **ret, struct err *err)
{
	auto_json json_t *theirs = NULL, *native = NULL;
	struct policy *policy = NULL;
	const char *mode = value && json_is_string(value) ? json_string_value(value) : NULL;
	int r = 0;

	if (!value || json_is_null(value))
		mode = "allow-all";
	else if (!mode)
		mode = mode_of(value);
	if (mode && strcmp(mode, "custom") == 0)
		r = read_custom(value, &theirs, err);
	else if (mode && strcmp(mode, "allow-all") != 0 && strcmp(mode, "deny-all") != 0)
		r = err_field(err, "networkPolicy.mode", "must be allow-all, deny-all or custom");
	else if (mode)
		theirs = json_pack("{s:s}", "mode", mode);
	else if (json_is_object(value))
		r = read_object(value, &theirs, err);
	else
		r = err_field(err, "networkPolicy", "must be an object");
	if (r == 0)
		r = policy_to_native(theirs, &native, err);
	if (r == 0)
		r = policy_read(native, "networkPolicy", &policy, err);
	if (r < 0)
		return r;
	policy_free(policy);
	*ret = json_incref(theirs);
	return 0;
}

/* {exact}, {startsWith}, {regex} are our {exact}, {prefix}, {regex}. */
static json_t *text_to_native(const json_t *text)
{
	const json_t *prefix = json_object_get(text, "startsWith");

	return prefix ? json_pack("{s:O}", "prefix", prefix) : json_deep_copy(text);
}

static void pairs_to_native(const json_t *pairs, const char *name, json_t *match)
{
	json_t *list = json_array();

	for (size_t i = 0; i < json_array_size(pairs); i++) {
		const json_t *key = json_object_get(json_array_get(pairs, i), "key");
		const json_t *value = json_object_get(json_array_get(pairs, i), "value");
		json_t *pair = json_object();

		if (key)
			(void)json_object_set_new(pair, "name", text_to_native(key));
		if (value)
			(void)json_object_set_new(pair, "value", text_to_native(value));
		(void)json_array_append_new(list, pair);
	}
	if (json_array_size(list) > 0)
		(void)json_object_set(match, name, list);
	json_decref(list);
}

static json_t *match_to_native(const json_t *theirs, const char *domain)
{
	const json_t *path = json_object_get(theirs, "path");
	const json_t *methods = json_object_get(theirs, "method");
	json_t *match = json_pack("{s:[s], s:s}", "domains", domain, "protocol", "tls");

	if (path)
		(void)json_object_set_new(match, "paths", json_pack("[o]", text_to_native(path)));
	if (json_array_size(methods) > 0)
		(void)json_object_set_new(match, "methods", json_deep_copy(methods));
	pairs_to_native(json_object_get(theirs, "queryString"), "query", match);
	pairs_to_native(json_object_get(theirs, "headers"), "headers", match);
	return match;
}

/* [{"headers": …}, …]: the later ones win. */
static json_t *transform_to_native(const json_t *list)
{
	json_t *headers = json_object();

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *more = json_object_get(json_array_get(list, i), "headers");

		if (json_is_object(more))
			(void)json_object_update(headers, unconst(more));
	}
	return json_pack("{s:{s:o}}", "transform", "headers", headers);
}

static json_t *response_to_native(const json_t *theirs)
{
	static const char *const names[][2] = {{"statusCode", "status"},
	                                       {"headers", "headers"},
	                                       {"body", "body"},
	                                       {"contentType", "content_type"}};
	json_t *respond = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const json_t *value = json_object_get(theirs, names[i][0]);

		if (value)
			(void)json_object_set_new(respond, names[i][1], json_deep_copy(value));
	}
	return json_pack("{s:o}", "respond", respond);
}

static json_t *action_to_native(const json_t *rule)
{
	const json_t *transform = json_object_get(rule, "transform");
	const json_t *forward = json_object_get(rule, "forwardURL");
	const json_t *response = json_object_get(rule, "response");

	if (forward)
		return json_pack("{s:{s:O}}", "forward", "url", forward);
	if (response)
		return response_to_native(response);
	return transform ? transform_to_native(transform) : json_string("allow");
}

static void domain_to_native(const char *domain, const json_t *rules, json_t *ret)
{
	for (size_t i = 0; i < json_array_size(rules); i++) {
		const json_t *rule = json_array_get(rules, i);

		(void)json_array_append_new(
			ret, json_pack("{s:o, s:o}", "match",
		                       match_to_native(json_object_get(rule, "match"), domain),
		                       "action", action_to_native(rule)));
	}
	(void)json_array_append_new(ret, json_pack("{s:{s:[s], s:s}, s:s}", "match", "domains",
	                                           domain, "protocol", "tls", "action", "allow"));
}

static bool is_open(const json_t *ranges)
{
	return json_array_size(ranges) > 0;
}

int policy_to_native(const json_t *theirs, json_t **ret, struct err *err)
{
	const json_t *allow = json_object_get(theirs, "allow");
	const json_t *subnets = json_object_get(theirs, "subnets");
	const json_t *open = json_object_get(subnets, "allow");
	const json_t *closed = json_object_get(subnets, "deny");
	auto_json json_t *rules = json_array();
	const char *mode = mode_of(theirs), *domain;
	json_t *value;

	if (mode) {
		*ret = json_string(mode);
		return 0;
	}
	for (size_t i = 0; i < json_array_size(allow); i++)
		domain_to_native(json_string_value(json_array_get(allow, i)), NULL, rules);
	json_object_foreach ((json_t *)unconst(allow), domain, value) {
		domain_to_native(domain, value, rules);
	}
	if (is_open(open))
		(void)json_array_append_new(rules, json_pack("{s:{s:O}, s:s}", "match", "cidrs",
		                                             open, "action", "allow"));
	*ret = json_pack("{s:O}", "rules", rules);
	if (*ret && is_open(closed))
		(void)json_object_set(*ret, "deny", unconst(closed));
	return *ret ? 0 : err_field(err, "networkPolicy", "is not one");
}

static void put_list(const json_t *list, struct json_writer *w, const char *name)
{
	if (json_array_size(list) > 0)
		json_put_value(w, name, list);
}

static void put_domains(const json_t *allow, struct json_writer *w)
{
	const char *domain;
	json_t *value;

	if (json_is_array(allow)) {
		put_list(allow, w, "allowedDomains");
		return;
	}
	if (json_object_size(allow) == 0)
		return;
	json_open_array(w, "allowedDomains");
	json_object_foreach ((json_t *)unconst(allow), domain, value) {
		json_put_str(w, NULL, domain);
	}
	json_close_array(w);
}

static void put_injection(const char *domain, const json_t *rule, struct json_writer *w)
{
	auto_json json_t *native = transform_to_native(json_object_get(rule, "transform"));
	const json_t *headers = json_object_get(json_object_get(native, "transform"), "headers");
	const char *name;
	json_t *value;

	json_open_object(w, NULL);
	json_put_str(w, "domain", domain);
	json_open_array(w, "headerNames");
	json_object_foreach ((json_t *)unconst(headers), name, value) {
		json_put_str(w, NULL, name);
	}
	json_close_array(w);
	if (json_object_get(rule, "match"))
		json_put_value(w, "match", json_object_get(rule, "match"));
	json_close_object(w);
}

static void put_forward(const char *domain, const json_t *rule, struct json_writer *w)
{
	json_open_object(w, NULL);
	json_put_str(w, "domain", domain);
	json_put_value(w, "forwardURL", json_object_get(rule, "forwardURL"));
	if (json_object_get(rule, "match"))
		json_put_value(w, "match", json_object_get(rule, "match"));
	json_close_object(w);
}

/* Writes the rules of one kind, for all domains. */
static void put_rules(const json_t *allow, const char *kind, const char *name,
                      void (*put)(const char *domain, const json_t *rule, struct json_writer *w),
                      struct json_writer *w)
{
	bool is_begun = false;
	const char *domain;
	json_t *rules;

	json_object_foreach ((json_t *)unconst(allow), domain, rules) {
		for (size_t i = 0; i < json_array_size(rules); i++) {
			if (!json_object_get(json_array_get(rules, i), kind))
				continue;
			if (!is_begun)
				json_open_array(w, name);
			is_begun = true;
			put(domain, json_array_get(rules, i), w);
		}
	}
	if (is_begun)
		json_close_array(w);
}

void policy_put_theirs(const json_t *theirs, struct json_writer *w, const char *name)
{
	const json_t *allow = json_object_get(theirs, "allow");
	const json_t *subnets = json_object_get(theirs, "subnets");
	const char *mode = mode_of(theirs);

	json_open_object(w, name);
	json_put_str(w, "mode", mode ? mode : "custom");
	put_domains(allow, w);
	put_list(json_object_get(subnets, "allow"), w, "allowedCIDRs");
	put_list(json_object_get(subnets, "deny"), w, "deniedCIDRs");
	if (json_is_object(allow)) {
		put_rules(allow, "transform", "injectionRules", put_injection, w);
		put_rules(allow, "forwardURL", "forwardRules", put_forward, w);
	}
	json_close_object(w);
}
