// SPDX-License-Identifier: Apache-2.0
#include "net/policy/policy.h"
#include "test.h"

#include <string.h>

static json_t *load(const char *text)
{
	json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

	CHECK(value);
	return value;
}

static const char *write_back(const struct policy *p, enum policy_secrets secrets, struct buf *out)
{
	struct json_writer w;

	buf_truncate(out, 0);
	json_writer_init(&w, out);
	policy_write(p, &w, NULL, secrets);
	CHECK_INT(json_writer_end(&w), 0);
	return buf_str(out);
}

/* The canonical form of a policy, or why it is none. */
static const char *canonical(const char *text, enum policy_secrets secrets)
{
	static struct buf out = BUF_INIT(256 * 1024);
	static struct err err;
	auto_call(policy_freep) struct policy *p = NULL;
	auto_json json_t *value = load(text);

	err = (struct err){0};
	if (policy_read(value, "policy", &p, &err) < 0)
		return err.message;
	return write_back(p, secrets, &out);
}

static void check_same(const char *text)
{
	CHECK_STR(canonical(text, SECRETS_SHOWN), text);
}

TEST(a_policy_has_one_form)
{
	static const struct {
		const char *text, *form;
	} rows[] = {
		{"\"deny-all\"", "\"deny-all\""},
		{"\"allow-all\"", "\"allow-all\""},
		{"{}", "\"deny-all\""},
		{"{\"allow\": []}", "\"deny-all\""},
		{"{\"rules\": [], \"deny\": null}", "\"deny-all\""},
		{"{\"mode\": \"enforce\", \"rules\": [{\"action\": \"allow\"}]}", "\"allow-all\""},
		{"{\"rules\": [{\"match\": {}, \"action\": \"allow\"}]}", "\"allow-all\""},
		{"{\"allow\": [\"Example.com.\", \"10.0.0.0/8\", \"*.a.com\", \"1.1.1.1\", "
	         "\"fd00::/8\"]}",
	         "{\"mode\":\"enforce\",\"rules\":[{\"match\":{\"domains\":[\"example.com\",\"*.a."
	         "com\"]},"
	         "\"action\":\"allow\"},{\"match\":{\"cidrs\":[\"10.0.0.0/8\",\"1.1.1.1/"
	         "32\",\"fd00::/"
	         "8\"]},\"action\":\"allow\"}]}"},
		{"{\"allow\": [\"a.com\"], \"deny\": [\"b.com\"], \"rules\": [{\"match\": "
	         "{\"ports\": "
	         "[22]}, \"action\": \"deny\"}]}",
	         "{\"mode\":\"enforce\",\"rules\":[{\"match\":{\"domains\":[\"b.com\"]},\"action\":"
	         "\"deny\"},{\"match\":{\"ports\":[22]},\"action\":\"deny\"},{\"match\":{"
	         "\"domains\":"
	         "[\"a.com\"]},\"action\":\"allow\"}]}"},
		{"{\"rules\": [{\"match\": {\"paths\": [\"/a\"]}, \"action\": \"allow\"}]}",
	         "{\"mode\":\"enforce\",\"rules\":[{\"match\":{\"paths\":[{\"exact\":\"/a\"}]},"
	         "\"action\":\"allow\"}]}"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(canonical(rows[i].text, SECRETS_SHOWN), rows[i].form);
}

TEST(everything_that_can_be_said_comes_back)
{
	check_same("{\"mode\":\"record\",\"rules\":[],\"limits\":{\"connections\":5,"
	           "\"bytes_per_second\":100000}}");
	check_same(
		"{\"mode\":\"enforce\",\"rules\":[{\"match\":{\"domains\":[\"*\"],\"cidrs\":[\"::/"
		"0\"],\"ports\":[443,\"8000-8999\"],\"protocol\":\"tls\",\"methods\":[\"GET\"],"
		"\"paths\":[{\"exact\":\"/a\"},{\"prefix\":\"/b/\"},{\"pattern\":\"/c/**\"},"
		"{\"regex\":\"^/d+$\"}],"
		"\"query\":[{\"name\":{\"exact\":\"k\"},\"value\":{\"pattern\":\"v*\"}}],"
		"\"headers\":[{\"name\":{\"exact\":\"accept\"}}]},\"action\":\"allow\"}]}");
	check_same(
		"{\"mode\":\"enforce\",\"rules\":[{\"match\":{\"domains\":[\"a.com\"],\"protocol\":"
		"\"tls\"},\"action\":{\"transform\":{\"headers\":{\"authorization\":\"Bearer "
		"x\"}}}}]}");
	check_same("{\"mode\":\"enforce\",\"refusals\":\"reset\",\"rules\":[{\"match\":{"
	           "\"domains\":[\"a.com\"]},\"action\":\"allow\"}]}");
	check_same("{\"mode\":\"enforce\",\"rules\":[{\"match\":{\"domains\":[\"a.com\"]},"
	           "\"action\":\"allow\"}],\"proxy\":{\"url\":\"socks5://h:1\",\"username\":"
	           "\"u\",\"password\":\"p\"}}");
	check_same(
		"{\"mode\":\"enforce\",\"rules\":[{\"action\":{\"forward\":{\"url\":\"https://h/"
		"p\"}}},{\"action\":{\"proxy\":{\"url\":\"socks5://h:1\",\"username\":\"u\","
		"\"password\":\"p\"}}},{\"action\":{\"respond\":{\"status\":403,\"headers\":{\"x\":"
		"\"y\"},\"content_type\":\"text/plain\",\"body\":\"no\"}}}]}");
}

TEST(secrets_are_not_shown_and_not_taken_for_themselves)
{
	static const char text[] =
		"{\"rules\": [{\"match\": {\"domains\": [\"a.com\"]}, \"action\": {\"transform\": "
		"{\"headers\": {\"Authorization\": \"Bearer hunter2\"}}}}, {\"action\": "
		"{\"proxy\": "
		"{\"url\": \"http://h:1\", \"username\": \"u\", \"password\": \"hunter2\"}}}]}";
	auto_free char *hidden = xstrdup(canonical(text, SECRETS_HIDDEN));

	CHECK(!strstr(hidden, "hunter2"));
	CHECK(strstr(hidden, "\"authorization\":\"<redacted>\""));
	CHECK(strstr(hidden, "\"password\":\"<redacted>\""));
	CHECK(strstr(canonical(text, SECRETS_SHOWN), "Bearer hunter2"));
	CHECK_STR(canonical(hidden, SECRETS_SHOWN),
	          "policy.rules[0].action.transform.headers: 'authorization' has the text that "
	          "stands for a secret that is not shown: send its value");
}

TEST(an_invalid_policy_is_refused_whole_with_the_entry_to_blame)
{
	static const struct {
		const char *text, *field;
	} rows[] = {
		{"1", "policy"},
		{"null", "policy"},
		{"\"allow\"", "policy"},
		{"[]", "policy"},
		{"{\"x\": 1}", "policy.x"},
		{"{\"mode\": \"off\"}", "policy.mode"},
		{"{\"allow\": \"a.com\"}", "policy.allow"},
		{"{\"allow\": [\"a.com\", \"b..com\"]}", "policy.allow[1]"},
		{"{\"allow\": [\"a.com\", 1]}", "policy.allow[1]"},
		{"{\"allow\": [\"10.0.0.1/8\"]}", "policy.allow[0]"},
		{"{\"allow\": [\"a.com\", \"127.1\"]}", "policy.allow[1]"},
		{"{\"allow\": [\"2130706433\"]}", "policy.allow[0]"},
		{"{\"allow\": [\"localhost\"]}", "policy.allow[0]"},
		{"{\"allow\": [\"b\\u00fccher.example\"]}", "policy.allow[0]"},
		{"{\"deny\": [\"https://a.com\"]}", "policy.deny[0]"},
		{"{\"rules\": [1]}", "policy.rules[0]"},
		{"{\"rules\": [{}]}", "policy.rules[0].action"},
		{"{\"rules\": [{\"action\": \"permit\"}]}", "policy.rules[0].action"},
		{"{\"rules\": [{\"action\": \"transform\"}]}", "policy.rules[0].action"},
		{"{\"rules\": [{\"action\": {}}]}", "policy.rules[0].action"},
		{"{\"rules\": [{\"action\": {\"allow\": {}}}]}", "policy.rules[0].action"},
		{"{\"rules\": [{\"action\": \"allow\", \"x\": 1}]}", "policy.rules[0].x"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"x\": 1}}]}",
	         "policy.rules[0].match.x"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"domains\": []}}]}",
	         "policy.rules[0].match.domains"},
		{"{\"rules\": [{\"action\": \"deny\"}, {\"action\": \"allow\", \"match\": "
	         "{\"cidrs\": "
	         "[\"1.1.1.1\", \"1.1.1\"]}}]}",
	         "policy.rules[1].match.cidrs[1]"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"ports\": [0]}}]}",
	         "policy.rules[0].match.ports[0]"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"ports\": [\"9-8\"]}}]}",
	         "policy.rules[0].match.ports[0]"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"ports\": [65536]}}]}",
	         "policy.rules[0].match.ports[0]"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"ports\": [-1]}}]}",
	         "policy.rules[0].match.ports[0]"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"protocol\": \"udp\"}}]}",
	         "policy.rules[0].match.protocol"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"methods\": [\"get\"]}}]}",
	         "policy.rules[0].match.methods[0]"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"paths\": [\"/a/../b\"]}}]}",
	         "policy.rules[0].match.paths[0]"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"paths\": [{\"regex\": "
	         "\"(?=a)\"}]}}]}",
	         "policy.rules[0].match.paths[0]"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"domains\": [\"a.com\"], "
	         "\"cidrs\": [\"1.1.1.1\"]}}], \"proxy\": {\"url\": \"socks5://h:1\"}}",
	         "policy"},
		{"{\"proxy\": {\"url\": \"https://h:1\"}}", "policy.proxy.url"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"paths\": [{\"pattern\": "
	         "\"a\"}]}}]}",
	         "policy.rules[0].match.paths[0]"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"query\": [{}]}}]}",
	         "policy.rules[0].match.query[0]"},
		{"{\"rules\": [{\"action\": \"allow\", \"match\": {\"headers\": [{\"name\": "
	         "1}]}}]}",
	         "policy.rules[0].match.headers[0]"},
		{"{\"rules\": [{\"action\": {\"transform\": {\"headers\": {\"a\": \"b\"}}}}]}",
	         "policy.rules[0].match.domains"},
		{"{\"rules\": [{\"action\": {\"transform\": {\"headers\": {\"Host\": \"b\"}}}}]}",
	         "policy.rules[0].action.transform.headers"},
		{"{\"rules\": [{\"match\": {\"domains\": [\"a.com\"]}, \"action\": {\"transform\": "
	         "{\"headers\": {\"a\": \"12345678\"}, \"scrub\": [\"b\"]}}}]}",
	         "policy.rules[0].action.transform.scrub[0]"},
		{"{\"rules\": [{\"match\": {\"domains\": [\"a.com\"]}, \"action\": {\"transform\": "
	         "{\"headers\": {\"a\": \"Bearer 1234567\"}, \"scrub\": [\"a\"]}}}]}",
	         "policy.rules[0].action.transform.scrub[0]"},
		{"{\"rules\": [{\"action\": {\"transform\": {\"headers\": {\"a b\": \"b\"}}}}]}",
	         "policy.rules[0].action.transform.headers"},
		{"{\"rules\": [{\"action\": {\"transform\": {\"headers\": {\"a\": \"b\\r\\nc: "
	         "d\"}}}}]}",
	         "policy.rules[0].action.transform.headers"},
		{"{\"rules\": [{\"action\": {\"transform\": {\"headers\": {\"a\": \"b\", \"A\": "
	         "\"c\"}}}}]}",
	         "policy.rules[0].action.transform.headers"},
		{"{\"rules\": [{\"action\": {\"forward\": {\"url\": \"ftp://h/\"}}}]}",
	         "policy.rules[0].action.forward.url"},
		{"{\"rules\": [{\"action\": {\"forward\": {\"url\": \"https://h/?q\"}}}]}",
	         "policy.rules[0].action.forward.url"},
		{"{\"rules\": [{\"action\": {\"proxy\": {\"url\": \"socks5://u:p@h:1\"}}}]}",
	         "policy.rules[0].action.proxy.url"},
		{"{\"rules\": [{\"action\": {\"proxy\": {\"url\": \"tcp://h:1\"}}}]}",
	         "policy.rules[0].action.proxy.url"},
		{"{\"rules\": [{\"action\": {\"respond\": {\"status\": 199}}}]}",
	         "policy.rules[0].action.respond.status"},
		{"{\"rules\": [{\"action\": {\"respond\": {\"status\": 204, \"body\": \"x\", "
	         "\"content_type\": \"a/b\"}}}]}",
	         "policy.rules[0].action.respond.body"},
		{"{\"rules\": [{\"action\": {\"respond\": {\"status\": 200, \"body\": \"x\"}}}]}",
	         "policy.rules[0].action.respond.content_type"},
		{"{\"limits\": {\"connections\": 0}}", "policy.limits.connections"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_json json_t *value = load(rows[i].text);
		struct policy *p = NULL;
		struct err err = {0};

		CHECK_INT(policy_read(value, "policy", &p, &err), -EINVAL);
		CHECK_STR(err.field, rows[i].field);
		CHECK(!p);
		CHECK_INT(err.code, ERR_INVALID_FIELD);
	}
}

TEST(a_policy_of_too_many_entries_is_refused)
{
	auto_json json_t *value = json_object(), *rules = json_array();
	struct policy *p = NULL;
	struct err err = {0};

	for (int i = 0; i < 5; i++) {
		json_t *domains = json_array();

		for (int j = 0; j < 1000; j++)
			CHECK_INT(json_array_append_new(domains, json_string("a.com")), 0);
		CHECK_INT(
			json_array_append_new(rules, json_pack("{s:{s:o},s:s}", "match", "domains",
		                                               domains, "action", "allow")),
			0);
	}
	CHECK_INT(json_object_set(value, "rules", rules), 0);
	CHECK_INT(policy_read(value, "policy", &p, &err), -EINVAL);
	CHECK_STR(err.field, "policy.rules[4].match.domains");
}

TEST(a_policy_of_too_many_patterns_is_refused)
{
	auto_json json_t *value = json_object(), *paths = json_array();
	struct policy *p = NULL;
	struct err err = {0};

	for (int i = 0; i <= POLICY_PATTERNS_MAX; i++)
		CHECK_INT(json_array_append_new(paths, json_pack("{s:s}", "pattern", "/*")), 0);
	CHECK_INT(json_object_set_new(
			  value, "rules",
			  json_pack("[{s:{s:O},s:s}]", "match", "paths", paths, "action", "allow")),
	          0);
	CHECK_INT(policy_read(value, "policy", &p, &err), -EINVAL);
	CHECK_STR(err.field, "policy.rules[0].match.paths[256]");
}

/* The policy with the host allowed, or why that cannot be. */
static const char *allowed(const char *text, const char *host, uint16_t port)
{
	static struct buf out = BUF_INIT(256 * 1024);
	static struct err err;
	auto_call(policy_freep) struct policy *p = NULL, *more = NULL;
	auto_json json_t *value = load(text);

	err = (struct err){0};
	CHECK_INT(policy_read(value, "policy", &p, &err), 0);
	if (policy_allow(p, host, port, &more, &err) < 0)
		return err.message;
	return write_back(more, SECRETS_SHOWN, &out);
}

TEST(a_host_that_is_allowed_stands_behind_all_rules_once)
{
	static const char one[] = "{\"mode\":\"enforce\",\"rules\":[{\"match\":{\"domains\":["
				  "\"a.com\"],\"ports\":[443]},\"action\":\"allow\"}]}";

	CHECK_STR(allowed("\"deny-all\"", "A.com", 443), one);
	CHECK_STR(allowed(one, "a.com", 443), one);
	CHECK_STR(allowed("{\"deny\": [\"a.com\"], \"mode\": \"record\"}", "10.0.0.0/8", 0),
	          "{\"mode\":\"record\",\"rules\":[{\"match\":{\"domains\":[\"a.com\"]},\"action\":"
	          "\"deny\"},{\"match\":{\"cidrs\":[\"10.0.0.0/8\"]},\"action\":\"allow\"}]}");
}

TEST(secrets_stay_when_a_host_is_allowed)
{
	const char *text =
		allowed("{\"rules\": [{\"match\": {\"domains\": [\"a.com\"]}, \"action\": "
	                "{\"transform\": {\"headers\": {\"x\": \"hidden\"}}}}]}",
	                "b.com", 0);

	CHECK(strstr(text, "hidden"));
	CHECK(strstr(text, "b.com"));
}

TEST(what_cannot_be_allowed_is_named)
{
	CHECK(strstr(allowed("\"deny-all\"", "a b", 0), "'a b'"));
	CHECK(strstr(allowed("\"deny-all\"", "1.2.3.4/99", 0), "1.2.3.4/99"));
	CHECK(strstr(allowed("\"deny-all\"", "localhost", 0), "the sandbox itself"));
	CHECK(strstr(allowed("\"allow-all\"", "a.com", 0), "all that is public"));
}
