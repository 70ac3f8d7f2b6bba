// SPDX-License-Identifier: Apache-2.0
/*
 * What a sandbox may reach. A change is answered when it is in force: what it allows can be
 * reached, and what it forbids was cut. Secrets of a policy are never told again.
 */
#include "sandbox/network/network.h"
#include "api/frame/find.h"
#include "api/frame/late_reply.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "net/policy/explain.h"

#include <string.h>

static void put_network(const struct sandbox *s, struct json_writer *w)
{
	json_put_str(w, "sandbox_id", sandbox_id(s));
	json_put_str(w, "kind", network_name(s));
	policy_write(network_policy(s), w, "policy", SECRETS_HIDDEN);
	json_put_bool(w, "in_force", network_is_settled(s));
	json_put_bool(w, "locked", network_is_locked(s));
}

int get_network(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	struct reply reply;
	int r = find_sandbox(req, &s, err);

	if (r < 0)
		return r;
	put_network(s, reply_begin(&reply));
	return reply_send(&reply, req, 200, err);
}

static void on_changed(struct sandbox *s, const struct err *err, void *arg)
{
	struct http_req *req = late_reply_take(arg, err);
	struct reply reply;

	if (!req)
		return;
	put_network(s, reply_begin(&reply));
	reply_send_late(&reply, req, 200);
}

/* Owns policy. The reply waits for the wall. */
static int change(struct http_req *req, struct sandbox *s, struct policy *policy, struct err *err)
{
	struct late_reply *late = late_reply_new(req, sizeof(*late));
	int r = network_change(s, policy, on_changed, late, err);

	return r < 0 ? late_reply_drop(late, r) : r;
}

int set_network(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	json_t *value = NULL;
	const struct json_field fields[] = {
		{"policy", JSON_FIELD_ANY, &value, /* required= */ true},
	};
	struct policy *policy;
	struct sandbox *s;
	int r = find_sandbox(req, &s, err);

	if (r == 0)
		r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = network_read_wish(api->fleet, value, "policy", &policy, err);
	if (r < 0)
		return r;
	return change(req, s, policy, err);
}

/* A host, or a word for the places that packages come from (network_read_wish()). */
static int add_to_policy(const struct fleet_config *c, const struct policy *policy,
                         const char *host, uint16_t port, struct policy **ret, struct err *err)
{
	auto_json json_t *names = json_array();
	auto_json json_t *ranges = json_array();
	auto_call(policy_freep) struct policy *more = NULL;
	const json_t *name;
	size_t i;
	int r = 0;

	if (!c->package_hosts ||
	    !c->package_hosts(host, names, names, ranges, c->package_hosts_arg))
		return policy_allow(policy, host, port, ret, err);
	json_array_foreach(names, i, name)
	{
		struct policy *next = NULL;

		r = policy_allow(more ? more : policy, json_string_value(name), port, &next, err);
		if (r < 0)
			return r;
		policy_free(more);
		more = next;
	}
	*ret = take_ptr(more);
	return 0;
}

int allow_network(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *host = NULL;
	uint64_t port = 0;
	const struct json_field fields[] = {
		{"host", JSON_FIELD_STRING, &host, /* required= */ true, .min = 1, .max = 255},
		{"port", JSON_FIELD_U64, &port, .min = 1, .max = UINT16_MAX},
	};
	auto_call(policy_freep) struct policy *more = NULL;
	struct policy *policy;
	struct sandbox *s;
	int r = find_sandbox(req, &s, err);

	if (r == 0)
		r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	if (r == 0 && network_is_locked(s)) {
		r = err_set(err, ERR_CONFLICT, 0,
		            "its policy is locked: the key that sealed it is not in the daemon's "
		            "key file");
		(void)err_hint(err, "put the key file back and restart the daemon, or set the "
		                    "whole policy again");
	}
	if (r == 0)
		r = add_to_policy(fleet_config(api->fleet), network_policy(s), host, (uint16_t)port,
		                  &more, err);
	if (r == 0)
		r = network_check(more, "policy", err);
	if (r < 0)
		return r;
	policy = take_ptr(more);
	return change(req, s, policy, err);
}

/* member: of its group, which no policy denies; or NULL. */
static void put_explanation(const struct policy *p, const struct explanation *e,
                            const struct sandbox *member, struct json_writer *w)
{
	const struct judge_decision *d = &e->decision;
	const ssize_t rule =
		member || d->rule == JUDGE_NO_RULE ? -1 : policy_rule_number(p, d->rule);
	const bool is_open = member || d->closed == RANGE_PUBLIC;

	json_put_bool(w, "allowed", member || e->is_allowed);
	if (rule < 0)
		json_put_null(w, "rule");
	else
		json_put_u64(w, "rule", (uint64_t)rule);
	json_put_str(w, "strength", explain_strength_name(member ? STRENGTH_ADDRESS : e->strength));
	json_put_bool(w, "depends_on_address", !member && d->outcome == JUDGE_NEED_ADDRESS);
	json_put_bool(w, "recorded", !member && d->is_recorded);
	json_put_str(w, "closed", is_open ? NULL : range_kind_name(d->closed));
	json_put_str(w, "member", member ? sandbox_id(member) : NULL);
}

int explain_network(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *url = NULL, *method = "GET";
	const struct json_field fields[] = {
		{"url", JSON_FIELD_STRING, &url, /* required= */ true, .min = 1, .max = 8192},
		{"method", JSON_FIELD_STRING, &method, .min = 1, .max = 32},
	};
	struct explanation e;
	struct sandbox *s;
	struct reply reply;
	int r = find_sandbox(req, &s, err);

	if (r == 0)
		r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = explain(network_policy(s), &fleet_config(api->fleet)->network_site, url, method,
		            &e, err);
	if (r < 0)
		return r;
	put_explanation(network_policy(s), &e, network_member_at(s, url), reply_begin(&reply));
	return reply_send(&reply, req, 200, err);
}
