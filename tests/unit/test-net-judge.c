// SPDX-License-Identifier: Apache-2.0
#include "net/policy/explain.h"
#include "net/policy/judge.h"
#include "net/policy/learn.h"
#include "test.h"

#include <string.h>

static const struct range_site site;

static struct policy *load(const char *text)
{
	auto_json json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
	struct policy *p = NULL;
	struct err err = {0};

	CHECK(value);
	if (policy_read(value, "policy", &p, &err) < 0)
		CHECK_STR(err.message, "");
	return p;
}

/* A connection as tests write it; NULL and 0 where nothing is known. */
struct sight {
	const char *name; /* "" if it says none */
	const char *dialled, *resolved;
	uint16_t port;
	enum policy_protocol protocol;
	const char *method, *host, *path, *query;
	struct judge_header header;
};

/* "allow 0 name", "deny", "deny 1", "deny private", "need request" and so on. */
static const char *verdict(const struct policy *p, struct sight s)
{
	static const char *const outcomes[] = {"deny", "allow", "need name", "need request",
	                                       "need address"};
	static const char *const dials[] = {" name", " address", " proxy", " nothing"};
	static char text[64];
	struct hostname name;
	struct address dialled, resolved;
	struct host host;
	struct path path = {0};
	struct judge_request request = {.method = s.method, .host = &host, .path = &path};
	struct judge_facts f = {.port = s.port, .protocol = s.protocol};
	struct judge_decision d;
	size_t at;

	if (s.name)
		f.name_state = *s.name ? NAME_KNOWN : NAME_NONE;
	if (s.name && *s.name) {
		CHECK_INT(hostname_parse(s.name, strlen(s.name), &name, NULL), 0);
		f.name = &name;
	}
	if (s.dialled) {
		CHECK_INT(address_parse(s.dialled, strlen(s.dialled), &dialled, NULL), 0);
		f.dialled = &dialled;
	}
	if (s.resolved) {
		CHECK_INT(address_parse(s.resolved, strlen(s.resolved), &resolved, NULL), 0);
		f.resolved = &resolved;
	}
	if (s.method) {
		const char *authority = s.host ? s.host : s.name;

		CHECK_INT(authority_parse(authority, strlen(authority), &host, &request.port, NULL),
		          0);
		CHECK_INT(path_parse(s.path, strlen(s.path), &path, NULL), 0);
		request.query = s.query;
		request.query_len = s.query ? strlen(s.query) : 0;
		request.headers = &s.header;
		request.n_headers = s.header.name ? 1 : 0;
		f.request = &request;
	}
	d = judge(p, &site, &f);
	path_done(&path);
	at = (size_t)snprintf(text, sizeof(text), "%s", outcomes[d.outcome]);
	if (d.rule != JUDGE_NO_RULE && d.outcome <= JUDGE_ALLOW)
		at += (size_t)snprintf(text + at, sizeof(text) - at, " %zu", d.rule);
	(void)snprintf(text + at, sizeof(text) - at, "%s%s%s%s",
	               d.outcome == JUDGE_ALLOW ? dials[d.dial] : "",
	               d.is_recorded ? " recorded" : "", d.is_other_host ? " other host" : "",
	               d.closed != RANGE_PUBLIC ? " closed" : "");
	return text;
}

#define VERDICT(p, ...) verdict(p, (struct sight){__VA_ARGS__})

TEST(no_rules_deny_everything_at_once)
{
	auto_call(policy_freep) struct policy *p = load("{\"allow\": []}");

	CHECK_STR(VERDICT(p, .dialled = "8.8.8.8", .port = 443), "deny");
	CHECK_STR(VERDICT(p, .name = "a.com"), "deny");
}

TEST(allow_all_is_the_public_internet)
{
	static const char *const closed[] = {"10.0.0.1",
	                                     "127.0.0.1",
	                                     "169.254.169.254",
	                                     "0.0.0.0",
	                                     "::1",
	                                     "::ffff:10.0.0.1",
	                                     "64:ff9b::a00:1",
	                                     "fd00:ec2::254",
	                                     "100.100.100.200",
	                                     "224.0.0.1",
	                                     "2002:a9fe:a9fe::",
	                                     "192.168.0.1"};
	auto_call(policy_freep) struct policy *p = load("\"allow-all\"");

	CHECK_STR(VERDICT(p, .dialled = "8.8.8.8", .port = 22), "allow 0 address");
	CHECK_STR(VERDICT(p, .name = "a.com"), "need address");
	CHECK_STR(VERDICT(p, .name = "a.com", .dialled = "8.8.8.8", .resolved = "8.8.8.8"),
	          "allow 0 address");
	for (size_t i = 0; i < ARRAY_SIZE(closed); i++)
		CHECK_STR(VERDICT(p, .dialled = closed[i], .port = 80), "deny closed");
}

TEST(a_name_is_judged_step_by_step)
{
	auto_call(policy_freep) struct policy *p = load("{\"allow\": [\"a.com\"]}");

	/* The address that the guest dialled means nothing. */
	CHECK_STR(VERDICT(p, .dialled = "6.6.6.6", .port = 443), "need name");
	CHECK_STR(VERDICT(p, .name = "a.com", .dialled = "6.6.6.6", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "need address");
	CHECK_STR(VERDICT(p, .name = "a.com", .dialled = "6.6.6.6", .resolved = "8.8.8.8",
	                  .port = 443, .protocol = PROTOCOL_TLS),
	          "allow 0 name");
	CHECK_STR(VERDICT(p, .name = "b.com", .dialled = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "deny");
	CHECK_STR(
		VERDICT(p, .name = "", .dialled = "8.8.8.8", .port = 443, .protocol = PROTOCOL_TLS),
		"deny");
	CHECK_STR(VERDICT(p, .name = "", .dialled = "8.8.8.8", .port = 22,
	                  .protocol = PROTOCOL_OTHER),
	          "deny");
}

TEST(a_name_that_leads_to_a_closed_address_is_denied)
{
	auto_call(policy_freep) struct policy *p = load("{\"allow\": [\"*\"]}");

	CHECK_STR(VERDICT(p, .name = "a.com", .resolved = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "allow 0 name");
	CHECK_STR(VERDICT(p, .name = "a.com", .resolved = "10.0.0.1", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "deny closed");
	CHECK_STR(VERDICT(p, .name = "metadata.google.internal", .resolved = "169.254.169.254",
	                  .port = 80, .protocol = PROTOCOL_TLS),
	          "deny closed");
	CHECK_STR(VERDICT(p, .name = "localhost"), "deny");
	CHECK_STR(VERDICT(p, .name = "a.localhost"), "deny");
}

TEST(a_name_reaches_a_closed_address_that_its_rule_names)
{
	auto_call(policy_freep) struct policy *p =
		load("{\"rules\": [{\"match\": {\"domains\": [\"db.corp\"], \"cidrs\": "
	             "[\"10.0.0.0/8\"]}, "
	             "\"action\": \"allow\"}]}");

	CHECK_STR(VERDICT(p, .name = "db.corp"), "need address");
	CHECK_STR(VERDICT(p, .name = "db.corp", .resolved = "10.1.1.1", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "allow 0 name");
	CHECK_STR(VERDICT(p, .name = "db.corp", .resolved = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "deny");
	CHECK_STR(VERDICT(p, .name = "", .dialled = "10.1.1.1", .port = 443,
	                  .protocol = PROTOCOL_OTHER),
	          "deny");
}

TEST(ranges_lead_to_addresses_and_let_no_name_be_resolved)
{
	auto_call(policy_freep) struct policy *p =
		load("{\"allow\": [\"8.8.8.0/24\", \"10.0.0.0/8\", \"0.0.0.0/0\"]}");

	CHECK_STR(VERDICT(p, .dialled = "8.8.8.8", .port = 53), "allow 0 address");
	CHECK_STR(VERDICT(p, .dialled = "10.0.0.1", .port = 53), "allow 0 address");
	CHECK_STR(VERDICT(p, .dialled = "192.168.0.1", .port = 53), "deny closed");
	CHECK_STR(VERDICT(p, .dialled = "2606::1", .port = 53), "deny");
	CHECK_STR(VERDICT(p, .name = "exfil.evil.tld"), "deny");
}

TEST(the_first_rule_that_matches_decides)
{
	auto_call(policy_freep) struct policy *p =
		load("{\"deny\": [\"bad.a.com\", \"8.8.0.0/16\"], \"allow\": [\"*.a.com\"]}");

	CHECK_STR(VERDICT(p, .name = "bad.a.com"), "deny 0");
	CHECK_STR(VERDICT(p, .name = "good.a.com"), "need address");
	CHECK_STR(VERDICT(p, .name = "good.a.com", .resolved = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "deny 1");
	CHECK_STR(VERDICT(p, .name = "good.a.com", .resolved = "9.9.9.9", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "allow 2 name");
	CHECK_STR(VERDICT(p, .dialled = "8.8.8.8", .port = 443), "deny 1");
}

TEST(all_but_some_is_decided_without_looking_where_addresses_suffice)
{
	auto_call(policy_freep) struct policy *by_address =
		load("{\"deny\": [\"8.8.0.0/16\"], \"rules\": [{\"action\": \"allow\"}]}");
	auto_call(policy_freep) struct policy *by_name =
		load("{\"deny\": [\"bad.com\"], \"rules\": [{\"action\": \"allow\"}]}");

	CHECK_STR(VERDICT(by_address, .dialled = "9.9.9.9", .port = 25), "allow 1 address");
	CHECK_STR(VERDICT(by_address, .dialled = "8.8.8.8", .port = 25), "deny 0");
	CHECK_STR(VERDICT(by_name, .dialled = "9.9.9.9", .port = 443), "need name");
	CHECK_STR(VERDICT(by_name, .name = "bad.com", .dialled = "9.9.9.9", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "deny 0");
	CHECK_STR(VERDICT(by_name, .name = "good.com", .dialled = "9.9.9.9", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "allow 1 address");
	CHECK_STR(VERDICT(by_name, .name = "", .dialled = "9.9.9.9", .port = 25,
	                  .protocol = PROTOCOL_OTHER),
	          "allow 1 address");
}

TEST(ports_that_no_rule_has_are_denied_before_a_byte_is_read)
{
	auto_call(policy_freep) struct policy *p =
		load("{\"rules\": [{\"match\": {\"domains\": [\"a.com\"], \"ports\": [443, "
	             "\"8000-8010\"]}, \"action\": \"allow\"}]}");

	CHECK_STR(VERDICT(p, .dialled = "8.8.8.8", .port = 22), "deny");
	CHECK_STR(VERDICT(p, .dialled = "8.8.8.8", .port = 8005), "need name");
	CHECK_STR(VERDICT(p, .name = "a.com"), "need address");
}

TEST(tls_is_opened_only_where_a_rule_has_to_see_inside)
{
	auto_call(policy_freep) struct policy *p = load(
		"{\"rules\": [{\"match\": {\"domains\": [\"api.com\"], \"methods\": [\"GET\"]}, "
		"\"action\": \"allow\"}], \"allow\": [\"plain.com\"]}");

	CHECK_STR(VERDICT(p, .name = "plain.com", .resolved = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "allow 1 name");
	CHECK_STR(VERDICT(p, .name = "api.com", .port = 443, .protocol = PROTOCOL_TLS),
	          "need request");
	CHECK_STR(VERDICT(p, .name = "api.com", .port = 443, .protocol = PROTOCOL_TLS,
	                  .method = "GET", .path = "/"),
	          "need address");
	CHECK_STR(VERDICT(p, .name = "api.com", .resolved = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS, .method = "GET", .path = "/"),
	          "allow 0 name");
	CHECK_STR(VERDICT(p, .name = "api.com", .port = 443, .protocol = PROTOCOL_TLS,
	                  .method = "POST", .path = "/"),
	          "deny");
	CHECK_STR(VERDICT(p, .name = "api.com", .port = 443, .protocol = PROTOCOL_OTHER), "deny");
}

TEST(each_request_of_plain_http_is_judged)
{
	auto_call(policy_freep) struct policy *p = load("{\"allow\": [\"a.com\"]}");

	CHECK_STR(VERDICT(p, .name = "a.com", .port = 80, .protocol = PROTOCOL_HTTP),
	          "need request");
	CHECK_STR(VERDICT(p, .name = "a.com", .resolved = "8.8.8.8", .port = 80,
	                  .protocol = PROTOCOL_HTTP, .method = "GET", .path = "/"),
	          "allow 0 name");
}

TEST(a_request_for_another_host_is_denied)
{
	static const char *const hosts[] = {"b.com", "A.com.evil", "8.8.8.8", "a.com:80"};
	auto_call(policy_freep) struct policy *p =
		load("{\"rules\": [{\"match\": {\"methods\": [\"GET\"]}, \"action\": \"allow\"}]}");

	CHECK_STR(VERDICT(p, .name = "a.com", .dialled = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS, .method = "GET", .path = "/",
	                  .host = "A.COM.:443"),
	          "allow 0 address");
	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++)
		CHECK_STR(VERDICT(p, .name = "a.com", .dialled = "8.8.8.8", .port = 443,
		                  .protocol = PROTOCOL_TLS, .method = "GET", .path = "/",
		                  .host = hosts[i]),
		          "deny other host");
	CHECK_STR(VERDICT(p, .name = "", .dialled = "8.8.8.8", .port = 80,
	                  .protocol = PROTOCOL_HTTP, .method = "GET", .path = "/",
	                  .host = "8.8.8.8"),
	          "allow 0 address");
	CHECK_STR(VERDICT(p, .name = "", .dialled = "8.8.8.8", .port = 80,
	                  .protocol = PROTOCOL_HTTP, .method = "GET", .path = "/",
	                  .host = "9.9.9.9"),
	          "deny other host");
}

static const char *request(const struct policy *p, const char *path, const char *query,
                           const char *header, const char *value)
{
	return VERDICT(p, .name = "a.com", .resolved = "8.8.8.8", .port = 443,
	               .protocol = PROTOCOL_TLS, .method = "GET", .path = path, .query = query,
	               .header = {header, value});
}

TEST(paths_are_matched_in_their_one_form)
{
	auto_call(policy_freep) struct policy *allow =
		load("{\"rules\": [{\"match\": {\"domains\": [\"a.com\"], \"paths\": [{\"prefix\": "
	             "\"/public/\"}, \"/\", {\"pattern\": \"/v*/x\"}]}, \"action\": \"allow\"}]}");
	auto_call(policy_freep) struct policy *deny =
		load("{\"rules\": [{\"match\": {\"domains\": [\"a.com\"], \"paths\": [{\"prefix\": "
	             "\"/admin\"}]}, \"action\": \"deny\"}], \"allow\": [\"a.com\"]}");

	CHECK_STR(request(allow, "/", NULL, NULL, NULL), "allow 0 name");
	CHECK_STR(request(allow, "//public/./a", NULL, NULL, NULL), "allow 0 name");
	CHECK_STR(request(allow, "/v2/x", NULL, NULL, NULL), "allow 0 name");
	CHECK_STR(request(allow, "/public/../secret", NULL, NULL, NULL), "deny");
	CHECK_STR(request(allow, "/public/%2e%2e/secret", NULL, NULL, NULL), "deny");
	CHECK_STR(request(allow, "/PUBLIC/a", NULL, NULL, NULL), "deny");
	/* An encoded slash: allowed where both readings are, denied where one is. */
	CHECK_STR(request(allow, "/public/a%2fb", NULL, NULL, NULL), "allow 0 name");
	CHECK_STR(request(allow, "/public%2fa", NULL, NULL, NULL), "deny");
	CHECK_STR(request(deny, "/admin/x", NULL, NULL, NULL), "deny 0");
	CHECK_STR(request(deny, "/%61dmin", NULL, NULL, NULL), "deny 0");
	CHECK_STR(request(deny, "/x/..//admin", NULL, NULL, NULL), "deny 0");
	CHECK_STR(request(deny, "/%2fadmin", NULL, NULL, NULL), "deny 0");
	CHECK_STR(request(deny, "/x", NULL, NULL, NULL), "allow 1 name");
}

TEST(queries_and_headers_are_matched_decoded_and_any_of_them_will_do)
{
	auto_call(policy_freep) struct policy *p = load(
		"{\"rules\": [{\"match\": {\"domains\": [\"a.com\"], \"query\": [{\"name\": \"k\", "
		"\"value\": {\"prefix\": \"a b\"}}], \"headers\": [{\"name\": \"X-Team\", "
		"\"value\": {\"pattern\": \"blue*\"}}]}, \"action\": \"allow\"}]}");

	CHECK_STR(request(p, "/", "k=a+b", "x-tEAM", "blue/1"), "allow 0 name");
	CHECK_STR(request(p, "/", "j&%6b=a%20bc", "X-Team", "blue"), "allow 0 name");
	CHECK_STR(request(p, "/", "k=x&k=a+b", "X-Team", "blue"), "allow 0 name");
	CHECK_STR(request(p, "/", "k=x", "X-Team", "blue"), "deny");
	CHECK_STR(request(p, "/", NULL, "X-Team", "blue"), "deny");
	CHECK_STR(request(p, "/", "k=a+b", "X-Team", "red"), "deny");
	CHECK_STR(request(p, "/", "k=a+b", NULL, NULL), "deny");
	CHECK_STR(request(p, "/", "k%00=a+b&%zz&%", "X-Team", "blue"), "deny");
}

TEST(headers_are_set_only_for_hosts_that_prove_to_be_it)
{
	auto_call(policy_freep) struct policy *p = load(
		"{\"rules\": [{\"match\": {\"domains\": [\"api.com\"], \"paths\": [{\"prefix\": "
		"\"/v1/\"}]}, \"action\": {\"transform\": {\"headers\": {\"authorization\": "
		"\"x\"}}}}], \"allow\": [\"api.com\"]}");

	CHECK_STR(VERDICT(p, .name = "api.com", .resolved = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS, .method = "GET", .path = "/v1/a"),
	          "allow 0 name");
	CHECK_STR(VERDICT(p, .name = "api.com", .resolved = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS, .method = "GET", .path = "/v2"),
	          "allow 1 name");
	CHECK_STR(VERDICT(p, .name = "api.com", .resolved = "8.8.8.8", .port = 80,
	                  .protocol = PROTOCOL_HTTP, .method = "GET", .path = "/v1/a"),
	          "allow 1 name");
	CHECK_STR(VERDICT(p, .name = "api.com", .resolved = "10.0.0.1", .port = 443,
	                  .protocol = PROTOCOL_TLS, .method = "GET", .path = "/v1/a"),
	          "deny closed");
}

TEST(what_goes_elsewhere_needs_no_address)
{
	auto_call(policy_freep) struct policy *p = load(
		"{\"rules\": [{\"match\": {\"domains\": [\"a.com\"]}, \"action\": {\"respond\": "
		"{\"status\": 403}}}, {\"match\": {\"domains\": [\"b.com\"]}, \"action\": "
		"{\"proxy\": {\"url\": \"socks5://10.0.0.1:1080\"}}}]}");
	struct address private = address_from_v4((const uint8_t[4]){10, 0, 0, 1});
	struct url by_name = {.host = {.is_name = true}};

	CHECK_STR(VERDICT(p, .name = "a.com", .port = 443, .protocol = PROTOCOL_TLS),
	          "need request");
	CHECK_STR(VERDICT(p, .name = "a.com", .port = 443, .protocol = PROTOCOL_TLS,
	                  .method = "GET", .path = "/"),
	          "allow 0 nothing");
	CHECK_STR(VERDICT(p, .name = "b.com", .port = 443, .protocol = PROTOCOL_TLS),
	          "allow 1 proxy");
	CHECK(judge_target_is_open(&site, &p->rules[1].target.url, &private));
	CHECK(!judge_target_is_open(&site, &by_name, &private));
}

TEST(recording_lets_through_what_is_public)
{
	auto_call(policy_freep) struct policy *p =
		load("{\"mode\": \"record\", \"allow\": [\"a.com\"], \"deny\": [\"bad.com\"]}");

	CHECK_STR(VERDICT(p, .dialled = "8.8.8.8", .port = 443), "need name");
	CHECK_STR(VERDICT(p, .name = "b.com", .resolved = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "allow name recorded");
	CHECK_STR(VERDICT(p, .name = "bad.com", .resolved = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "allow 0 name recorded");
	CHECK_STR(VERDICT(p, .name = "a.com", .resolved = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "allow 1 name");
	CHECK_STR(VERDICT(p, .name = "", .dialled = "8.8.8.8", .port = 22,
	                  .protocol = PROTOCOL_OTHER),
	          "allow address recorded");
	CHECK_STR(VERDICT(p, .name = "b.com", .resolved = "10.0.0.1", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "deny closed");
	CHECK_STR(VERDICT(p, .name = "", .dialled = "169.254.169.254", .port = 80,
	                  .protocol = PROTOCOL_OTHER),
	          "deny closed");
	CHECK_STR(VERDICT(p, .name = "localhost"), "deny");
}

TEST(what_the_policies_of_others_say_can_be_said)
{
	/* E2B: allowOut wins over denyOut, and all else is open. */
	auto_call(policy_freep) struct policy *open = load(
		"{\"rules\": [{\"match\": {\"cidrs\": [\"9.9.9.9\"]}, \"action\": \"allow\"}, "
		"{\"match\": {\"cidrs\": [\"9.9.9.0/24\"]}, \"action\": \"deny\"}, {\"action\": "
		"\"allow\"}]}");
	/* Vercel: subnets.deny beats all, a domain's rules come before the domain, subnets.allow
	 * and
	 * "*" let connections without a name through. */
	auto_call(policy_freep) struct policy *closed = load(
		"{\"deny\": [\"8.8.4.0/24\"], \"rules\": [{\"match\": {\"domains\": [\"api.com\"], "
		"\"methods\": [\"POST\"], \"headers\": [{\"name\": \"x\", \"value\": {\"prefix\": "
		"\"y\"}}]}, \"action\": {\"respond\": {\"status\": 403}}}], \"allow\": "
		"[\"api.com\", "
		"\"a.*.b.com\", \"8.8.0.0/16\"]}");

	CHECK_STR(VERDICT(open, .dialled = "9.9.9.9", .port = 1), "allow 0 address");
	CHECK_STR(VERDICT(open, .dialled = "9.9.9.8", .port = 1), "deny 1");
	CHECK_STR(VERDICT(open, .dialled = "8.8.8.8", .port = 1), "allow 2 address");
	CHECK_STR(VERDICT(open, .dialled = "10.0.0.1", .port = 1), "deny closed");
	CHECK_STR(VERDICT(closed, .dialled = "8.8.4.4", .port = 443), "deny 0");
	CHECK_STR(VERDICT(closed, .name = "", .dialled = "8.8.8.8", .port = 443,
	                  .protocol = PROTOCOL_TLS),
	          "allow 3 address");
	CHECK_STR(VERDICT(closed, .name = "api.com", .resolved = "9.9.9.9", .port = 443,
	                  .protocol = PROTOCOL_TLS, .method = "POST", .path = "/",
	                  .header = {"X", "yes"}),
	          "allow 1 nothing");
	CHECK_STR(VERDICT(closed, .name = "api.com", .resolved = "9.9.9.9", .port = 443,
	                  .protocol = PROTOCOL_TLS, .method = "GET", .path = "/"),
	          "allow 2 name");
	CHECK_STR(VERDICT(closed, .name = "a.x.b.com"), "need address");
	CHECK_STR(VERDICT(closed, .name = "a.b.com"), "deny");
}

/* "rule strength", for what is allowed. */
static const char *explained(const struct policy *p, const char *url)
{
	static char text[64];
	struct explanation e;

	CHECK_INT(explain(p, &site, url, "GET", &e, NULL), 0);
	CHECK_INT(e.is_allowed, e.strength != STRENGTH_REFUSED);
	if (e.decision.rule == JUDGE_NO_RULE)
		return explain_strength_name(e.strength);
	(void)snprintf(text, sizeof(text), "%zu %s", e.decision.rule,
	               explain_strength_name(e.strength));
	return text;
}

TEST(an_explanation_names_the_rule_and_what_it_is_worth)
{
	auto_call(policy_freep) struct policy *p = load(
		"{\"deny\": [\"bad.com\"], \"rules\": [{\"match\": {\"domains\": [\"api.com\"], "
		"\"methods\": [\"GET\"], \"paths\": [{\"prefix\": \"/v1/\"}]}, \"action\": "
		"\"allow\"}], \"allow\": [\"*.api.example.com\", \"8.8.8.0/24\"]}");
	struct explanation e;
	struct err err = {0};

	CHECK_STR(explained(p, "https://bad.com/"), "0 refused");
	CHECK_STR(explained(p, "https://api.com/v1/x"), "1 verified");
	CHECK_STR(explained(p, "https://api.com/v2/x"), "refused");
	CHECK_STR(explained(p, "http://api.com/v1/x"), "1 host");
	CHECK_STR(explained(p, "https://files.api.example.com/simple"), "2 name");
	CHECK_STR(explained(p, "http://files.api.example.com/simple"), "2 host");
	CHECK_STR(explained(p, "tcp://git.api.example.com:22"), "2 address");
	CHECK_STR(explained(p, "https://8.8.8.8/"), "3 address");
	CHECK_STR(explained(p, "https://127.0.0.1/"), "refused");
	CHECK_STR(explained(p, "https://other.com/"), "refused");
	CHECK_INT(explain(p, &site, "example.com", "GET", &e, &err), -EINVAL);
	CHECK_STR(err.field, "url");
}

static struct hostname host(const char *text)
{
	struct hostname name = {0};

	CHECK_INT(hostname_parse(text, strlen(text), &name, NULL), 0);
	return name;
}

TEST(what_was_recorded_becomes_the_smallest_policy)
{
	auto_call(learner_freep) struct learner *l = learner_new();
	auto_call(buf_done) struct buf out = BUF_INIT(65536);
	auto_call(policy_freep) struct policy *p = NULL;
	struct address public = address_from_v4((const uint8_t[4]){9, 9, 9, 9});
	struct address private = address_from_v4((const uint8_t[4]){10, 0, 0, 1});
	struct hostname a = host("b.com"), b = host("a.com"), c = host("db.corp"),
			d = host("c.com");
	struct json_writer w;

	CHECK(learner_add(l, &a, NULL, 443));
	CHECK(learner_add(l, &b, NULL, 443));
	CHECK(!learner_add(l, &a, NULL, 443)); /* it is known */
	CHECK(learner_add(l, &d, NULL, 8443));
	CHECK(learner_add(l, &d, NULL, 443));
	CHECK(learner_add(l, &c, &private, 5432));
	CHECK(learner_add(l, NULL, &public, 22));
	json_writer_init(&w, &out);
	learner_write(l, &w, NULL);
	CHECK_INT(json_writer_end(&w), 0);
	CHECK_STR(
		buf_str(&out),
		"{\"mode\":\"enforce\",\"rules\":[{\"match\":{\"cidrs\":[\"9.9.9.9/32\"],\"ports\":"
		"[22]},\"action\":\"allow\"},{\"match\":{\"domains\":[\"a.com\",\"b.com\"],"
		"\"ports\":[443]},\"action\":\"allow\"},{\"match\":{\"domains\":[\"c.com\"],"
		"\"ports\":[443,8443]},\"action\":\"allow\"},{\"match\":{\"domains\":[\"db.corp\"],"
		"\"cidrs\":[\"10.0.0.1/32\"],\"ports\":[5432]},\"action\":\"allow\"}]}");
	p = load(buf_str(&out));
	CHECK_STR(VERDICT(p, .name = "db.corp", .resolved = "10.0.0.1", .port = 5432,
	                  .protocol = PROTOCOL_OTHER),
	          "allow 3 name");
	CHECK_STR(VERDICT(p, .name = "a.com", .resolved = "8.8.8.8", .port = 8443,
	                  .protocol = PROTOCOL_TLS),
	          "deny");
}

TEST(whatever_was_recorded_is_a_policy_that_can_be_read)
{
	auto_call(learner_freep) struct learner *l = learner_new();
	auto_call(buf_done) struct buf out = BUF_INIT(1024 * 1024);
	auto_call(policy_freep) struct policy *p = NULL;
	struct json_writer w;

	for (unsigned i = 0; i < LEARN_HOSTS_MAX + 10; i++) {
		struct address a =
			address_from_v4((const uint8_t[4]){10, 0, (uint8_t)(i / 256), (uint8_t)i});
		char text[32];
		struct hostname name;

		(void)snprintf(text, sizeof(text), "h%u.com", i);
		name = host(text);
		for (unsigned j = 0; j < (i == 0 ? 20 : LEARN_PORTS_MAX); j++)
			(void)learner_add(l, &name, &a, (uint16_t)(1 + i + j * 1000));
	}
	CHECK(learner_is_full(l));
	json_writer_init(&w, &out);
	learner_write(l, &w, NULL);
	CHECK_INT(json_writer_end(&w), 0);
	p = load(buf_str(&out));
	CHECK_INT(p->n_rules, LEARN_HOSTS_MAX);
	CHECK_INT(p->rules[0].match.n_ports, 0);
}
