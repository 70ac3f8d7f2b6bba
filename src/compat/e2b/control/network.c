// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/control/network.h"

#include "compat/e2b/control/workload_token.h"
#include "compat/e2b/frame/body.h"

#include "net/match/address.h"

#include <string.h>

#define HEADER_VALUE_MAX (64 << 10) /* a policy has less */

static bool is_all(const char *text)
{
	return strcmp(text, "0.0.0.0/0") == 0;
}

static bool is_range(const char *text)
{
	const char *why;
	struct cidr c;

	return cidr_parse(text, strlen(text), &c, &why) == 0;
}

static void add_rule(json_t *rules, const char *kind, json_t *what, json_t *action)
{
	json_t *rule = json_object();

	if (what)
		(void)json_object_set_new(rule, "match", json_pack("{s:o}", kind, what));
	(void)json_object_set_new(rule, "action", action);
	(void)json_array_append_new(rules, rule);
}

static void add_rule_if_any(json_t *rules, const char *kind, json_t *list, const char *action)
{
	if (json_array_size(list) > 0)
		add_rule(rules, kind, list, json_string(action));
	else
		json_decref(list);
}

static int check_texts(const json_t *list, const char *field, struct err *err)
{
	size_t i;
	json_t *value;

	json_array_foreach(unconst(list), i, value) if (!json_is_string(value)) return err_field(
		err, field, "must be an array of strings");
	return 0;
}

/* Names and ranges become separate rules: in a single rule both would have to match. */
static int add_allowed(json_t *rules, const json_t *allowed, bool denies_all, struct err *err)
{
	json_t *names = json_array(), *ranges = json_array(), *value;
	int r = 0;
	size_t i;

	json_array_foreach(unconst(allowed), i, value)
	{
		const char *text = json_string_value(value);

		(void)json_array_append(is_range(text) ? ranges : names, value);
		if (!is_range(text) && !denies_all && r == 0)
			r = err_set(
				err, ERR_INVALID_FIELD, 0,
				"When specifying allowed domains in allow out, you must "
				"include 'ALL_TRAFFIC' in deny out to block all other traffic.");
	}
	add_rule_if_any(rules, "domains", names, "allow");
	add_rule_if_any(rules, "cidrs", ranges, "allow");
	return r;
}

static int add_denied(json_t *rules, const json_t *denied, bool *ret_all, struct err *err)
{
	json_t *ranges = json_array(), *value;
	int r = 0;
	size_t i;

	json_array_foreach(unconst(denied), i, value)
	{
		const char *text = json_string_value(value);

		if (!is_range(text) && r == 0)
			r = err_set(err, ERR_INVALID_FIELD, 0, "invalid denied CIDR %.80s", text);
		*ret_all |= is_all(text);
		if (!is_all(text))
			(void)json_array_append(ranges, value);
	}
	add_rule_if_any(rules, "cidrs", ranges, "deny");
	return r;
}

static bool has_text(const json_t *list, const char *text)
{
	json_t *value;
	size_t i;

	json_array_foreach(unconst(list), i,
	                   value) if (strcmp(json_string_value(value), text) == 0) return true;
	return false;
}

/* What stands in a header for a value that only the wall has, and our scheme for it. */
static const struct placeholder {
	const char *start, *scheme;
	bool is_token;
} placeholders[] = {
	{"${e2b.secrets.", "secret://", false},
	{"${e2b.identity.tokens.", "identity://", true},
};

static const struct placeholder *find_placeholder(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(placeholders); i++)
		if (strncmp(text, placeholders[i].start, strlen(placeholders[i].start)) == 0)
			return &placeholders[i];
	return NULL;
}

/* "Bearer ${e2b.secrets.NAME}" is our "Bearer secret://NAME", and a token has its audience. */
static int fill_value(const char *at, const json_t *tokens, struct buf *out, struct err *err)
{
	int r = 0;

	while (r == 0 && *at) {
		const struct placeholder *p = find_placeholder(at);
		const char *name = p ? at + strlen(p->start) : NULL;
		const char *end = p ? strchr(name, '}') : NULL;

		if (!end) {
			r = buf_append(out, at++, 1);
		} else {
			const char *audience = NULL;

			if (p->is_token) {
				audience = workload_token_audience(tokens, name,
				                                   (size_t)(end - name), err);
				if (!audience)
					return -EINVAL;
			}
			r = buf_printf(out, "%s%.*s", p->scheme,
			               audience ? (int)strlen(audience) : (int)(end - name),
			               audience ? audience : name);
			at = end + 1;
		}
	}
	return r < 0 ? err_field(err, "network.rules", "a header has more than %d bytes",
	                         HEADER_VALUE_MAX)
	             : 0;
}

static int fill_headers(const json_t *headers, const json_t *tokens, json_t **ret, struct err *err)
{
	auto_json json_t *filled = json_object();
	json_t *value;
	const char *name;

	json_object_foreach ((json_t *)unconst(headers), name, value) {
		auto_call(buf_done) struct buf text = BUF_INIT(HEADER_VALUE_MAX);
		int r = fill_value(json_string_value(value), tokens, &text, err);

		if (r < 0)
			return r;
		(void)json_object_set_new(filled, name, json_string(buf_str(&text)));
	}
	*ret = take_ptr(filled);
	return 0;
}

static int add_transform(json_t *rules, const char *host, const json_t *one, const json_t *tokens,
                         struct err *err)
{
	const json_t *headers = NULL;
	json_t *filled = NULL;
	int r = body_strings(json_object_get(one, "transform"), "headers", &headers, err);

	if (r < 0 || !headers)
		return r;
	r = fill_headers(headers, tokens, &filled, err);
	if (r == 0)
		add_rule(rules, "domains", json_pack("[s]", host),
		         json_pack("{s:{s:o}}", "transform", "headers", filled));
	return r;
}

/* {"host": [{"transform": {"headers": {…}}}]}: header fields for hosts that are allowed anyway. */
static int add_transforms(json_t *rules, const struct e2b_network *network, const json_t *hosts,
                          const json_t *allowed, bool denies_all, struct err *err)
{
	const char *host;
	json_t *list, *one;
	size_t i;
	int r = 0;

	json_object_foreach ((json_t *)unconst(hosts), host, list) {
		if (denies_all && !has_text(allowed, host))
			continue;
		json_array_foreach(list, i, one)
		{
			if (r == 0)
				r = add_transform(rules, host, one, network->tokens, err);
		}
	}
	return r;
}

static int add_proxy(json_t *policy, const json_t *options, struct err *err)
{
	const char *address = NULL, *username = NULL, *password = NULL;
	const json_t *proxy = NULL;
	json_t *ours;
	int r = body_object(options, "egressProxy", &proxy, err);

	if (r == 0)
		r = body_text(proxy, "address", &address, err);
	if (r == 0)
		r = body_text(proxy, "username", &username, err);
	if (r == 0)
		r = body_text(proxy, "password", &password, err);
	if (r < 0 || !address)
		return r;
	ours = json_object();
	(void)json_object_set_new(ours, "url", json_sprintf("socks5://%s", address));
	if (username)
		(void)json_object_set_new(ours, "username", json_string(username));
	if (password)
		(void)json_object_set_new(ours, "password", json_string(password));
	(void)json_object_set_new(policy, "proxy", ours);
	return 0;
}

int e2b_policy(const struct e2b_network *network, json_t **ret, struct err *err)
{
	const json_t *const options = network->options;
	const json_t *allowed = NULL, *denied = NULL, *hosts = NULL;
	auto_json json_t *policy = json_object(), *tail = json_array();
	json_t *rules = json_array();
	bool denies_all = !network->has_internet;
	int r = body_array(options, "allowOut", &allowed, err);

	/* There a denied connection fails, also for who looks at nothing but curl's exit status. */
	(void)json_object_set_new(policy, "refusals", json_string("reset"));
	(void)json_object_set_new(policy, "rules", rules);
	if (r == 0)
		r = body_array(options, "denyOut", &denied, err);
	if (r == 0)
		r = body_object(options, "rules", &hosts, err);
	if (r == 0)
		r = check_texts(allowed, "allowOut", err);
	if (r == 0)
		r = check_texts(denied, "denyOut", err);
	if (r == 0)
		r = add_denied(tail, denied, &denies_all, err);
	if (r == 0)
		r = add_transforms(rules, network, hosts, allowed, denies_all, err);
	if (r == 0)
		r = add_allowed(rules, allowed, denies_all, err);
	if (r == 0)
		r = add_proxy(policy, options, err);
	if (r < 0)
		return r;
	(void)json_array_extend(rules, tail);
	if (!denies_all)
		add_rule(rules, "", NULL, json_string("allow"));
	if (json_array_size(rules) == 0)
		*ret = json_string("deny-all");
	else if (json_array_size(rules) == 1 && !denies_all && !json_object_get(policy, "proxy"))
		*ret = json_string("allow-all");
	else
		*ret = take_ptr(policy);
	return 0;
}

json_t *e2b_policy_told(const json_t *options)
{
	json_t *told = json_deep_copy(options);

	(void)json_object_del(json_object_get(told, "egressProxy"), "password");
	return told;
}
