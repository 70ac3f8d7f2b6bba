// SPDX-License-Identifier: Apache-2.0
/*
 * Adds one host to a policy. The new rule comes after all others, so it decides only what none of
 * them matched: it never bypasses a rule that denies or that does more than allow. This works on
 * the policy's JSON with its secrets: a client that read the policy could not do it, since it was
 * not shown them.
 */
#include "net/policy/policy.h"

#include <string.h>

#define JSON_BYTES_MAX (1 << 20) /* far more than policy_read() accepts */

/* {"policy": it}, because a policy may be just a string. */
static int to_json(const struct policy *p, json_t **ret, struct err *err)
{
	auto_call(buf_done) struct buf text = BUF_INIT(JSON_BYTES_MAX);
	struct json_writer w;

	json_writer_init(&w, &text);
	json_open_object(&w, NULL);
	policy_write(p, &w, "policy", SECRETS_SHOWN);
	json_close_object(&w);
	if (json_writer_end(&w) < 0)
		return err_set(err, ERR_TOO_LARGE, 0, "the policy is too large");
	return json_parse(text.data, text.len, ret, err);
}

/* Says what is wrong with the host, under its own field name. */
static int check_host(const char *host, bool is_range, struct err *err)
{
	struct hostname_pattern pattern;
	struct cidr cidr;
	const char *why = NULL;
	int r = is_range ? cidr_parse(host, strlen(host), &cidr, &why)
	                 : hostname_pattern_parse(host, strlen(host), &pattern, &why);

	if (r < 0)
		return err_field(err, "host", "'%s' %s", host, why);
	if (!is_range && hostname_is_local(&pattern.name))
		return err_field(err, "host", "'%s' is the sandbox itself, which needs no rule",
		                 host);
	return 0;
}

/* A policy of that rule alone, as to_json() writes it, so that the two can be compared. */
static int make_rule(const char *host, uint16_t port, json_t **ret, struct err *err)
{
	bool is_range = policy_text_is_range(host);
	auto_call(policy_freep) struct policy *alone = NULL;
	auto_json json_t *match = NULL, *rules = NULL;
	int r = check_host(host, is_range, err);

	if (r < 0)
		return r;
	match = json_pack("{s:[s]}", is_range ? "cidrs" : "domains", host);
	if (port)
		(void)json_object_set_new(match, "ports", json_pack("[i]", port));
	rules = json_pack("{s:[{s:O,s:s}]}", "rules", "match", match, "action", "allow");
	r = policy_read(rules, "host", &alone, err);
	if (r < 0)
		return r;
	return to_json(alone, ret, err);
}

static bool has_rule(const json_t *rules, const json_t *rule)
{
	const json_t *one;
	size_t i;

	json_array_foreach(rules, i, one)
	{
		if (json_equal(one, rule))
			return true;
	}
	return false;
}

int policy_allow(const struct policy *p, const char *host, uint16_t port, struct policy **ret,
                 struct err *err)
{
	auto_json json_t *whole = NULL, *alone = NULL;
	json_t *rules, *rule;
	int r = make_rule(host, port, &alone, err);

	if (r == 0)
		r = to_json(p, &whole, err);
	if (r < 0)
		return r;
	if (json_is_string(json_object_get(whole, "policy"))) {
		if (policy_opens(p))
			return err_set(err, ERR_CONFLICT, 0,
			               "the policy allows all that is public; what is closed needs "
			               "rules");
		(void)json_object_set_new(whole, "policy", json_pack("{s:[]}", "rules"));
	}
	rules = json_object_get(json_object_get(whole, "policy"), "rules");
	rule = json_array_get(json_object_get(json_object_get(alone, "policy"), "rules"), 0);
	if (!has_rule(rules, rule))
		(void)json_array_append(rules, rule);
	return policy_read(json_object_get(whole, "policy"), "policy", ret, err);
}
