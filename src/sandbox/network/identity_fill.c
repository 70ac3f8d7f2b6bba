// SPDX-License-Identifier: Apache-2.0
#include "sandbox/network/identity_fill.h"

#include "base/log.h"
#include "net/policy/identity_reference.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/network_private.h"

#include <string.h>

#define US_PER_MS 1000
#define APART_US  2000 /* between two sandboxes, so that signing for all holds nobody up */

static int check_audience(const struct fleet *fleet, const char *audience, const char *field,
                          struct err *err)
{
	if (identity_may_name(fleet->config.identity, audience))
		return 0;
	(void)err_field(err, field,
	                "names the audience '%.100s', for which no tokens are given out", audience);
	return err_hint(err, "the setting `identity.audiences` has those that a policy may name; "
	                     "`cloche identity` shows them");
}

int identity_check_policy(const struct fleet *fleet, const struct policy *p, const char *field,
                          struct err *err)
{
	int r = 0;

	if (!policy_names_audience(p, NULL))
		return 0;
	if (!fleet->config.identity) {
		(void)err_field(err, field, "names an audience, but this daemon issues no tokens");
		return err_hint(err, "set `identity.issuer` to the https URL under which clouds "
		                     "find this daemon, and restart it");
	}
	for (size_t i = 0; r == 0 && i < p->n_audiences; i++)
		r = check_audience(fleet, p->audiences[i], field, err);
	for (size_t i = 0; r == 0 && i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];

		for (size_t k = 0;
		     r == 0 && rule->action == ACTION_TRANSFORM && k < rule->n_headers; k++) {
			const char *named = identity_reference_audience(rule->headers[k].value);

			if (named)
				r = check_audience(fleet, named, field, err);
		}
	}
	return r;
}

static int sign(struct sandbox *s, const char *audience, enum identity_way way,
                struct identity_token *ret, struct err *err)
{
	char image[DIGEST_HEX] = "";
	struct workload w = {.project_id = s->project_id,
	                     .template = s->template,
	                     .image = image,
	                     .snapshot_id = s->snapshot_id,
	                     .engine = engine_name(s->isolation.engine),
	                     .grade = grade_name(s->isolation.grade),
	                     .sandbox_id = s->id};

	if (s->isolation.engine == 0) /* a grade is told when it is known */
		return err_set(err, ERR_CONFLICT, 0, "sandbox %s does not run yet", s->id);
	if (!digest_is_zero(&s->image))
		digest_to_hex(&s->image, image);
	return identity_sign(s->fleet->config.identity, &w, audience, way, ret, err);
}

/* The operator may have forbidden it since. */
static int sign_for_wall(struct sandbox *s, const char *audience, struct identity_token *ret,
                         struct err *err)
{
	int r = s->fleet->config.identity
	                ? 0
	                : err_set(err, ERR_UNSUPPORTED, 0, "this daemon issues no tokens");

	*ret = (struct identity_token){0};
	if (r == 0)
		r = check_audience(s->fleet, audience, "policy", err);
	if (r == 0)
		r = sign(s, audience, IDENTITY_BY_WALL, ret, err);
	if (r < 0)
		log_warn("identity.not_filled", "id=%s error='%s'", s->id, err->message);
	return r;
}

/* Behind the scheme, if it has one. */
static int fill_header(struct sandbox *s, json_t *headers, const char *name, const char *value)
{
	const char *audience = identity_reference_audience(value);
	auto_call(identity_token_done) struct identity_token token = {0};
	auto_free char *whole = NULL;
	struct err err;

	if (!audience)
		return 0;
	if (sign_for_wall(s, audience, &token, &err) < 0)
		return -EPERM;
	whole = xasprintf("%.*s%s", (int)strcspn(value, " ") + 1, value, buf_str(&token.text));
	(void)json_object_set_new(headers, name,
	                          json_string(strchr(value, ' ') ? whole : buf_str(&token.text)));
	explicit_bzero(whole, strlen(whole));
	return 0;
}

static void fill_rule(struct sandbox *s, json_t *rule)
{
	json_t *transform = json_object_get(json_object_get(rule, "action"), "transform");
	json_t *headers = json_object_get(transform, "headers"), *value;
	const char *name;
	void *next;

	json_object_foreach_safe(headers, next, name, value)
	{
		if (fill_header(s, headers, name, json_string_value(value)) < 0) {
			(void)json_object_set_new(rule, "action", json_string("deny"));
			return;
		}
	}
}

/* The list of audiences becomes what policy_read() makes of it, with tokens. */
static void fill_answers(struct sandbox *s, const json_t *audiences, json_t *rules)
{
	const size_t n = json_array_size(audiences);

	for (size_t i = 0; i < n; i++) {
		const char *audience = json_string_value(json_array_get(audiences, i));
		auto_call(identity_token_done) struct identity_token token = {0};
		struct err err;
		json_t *rule;

		if (sign_for_wall(s, audience, &token, &err) == 0) {
			rule = identity_rule(audience, buf_str(&token.text));
		} else {
			rule = identity_rule(audience, "");
			(void)json_object_set_new(rule, "action", json_string("deny"));
		}
		(void)json_array_insert_new(rules, i, rule);
	}
	if (n > 0)
		(void)json_array_insert_new(rules, n, identity_last_rule());
}

void identity_fill(struct sandbox *s, json_t *policy)
{
	auto_json json_t *identity = json_incref(json_object_get(policy, "identity"));
	json_t *rules = json_object_get(policy, "rules"), *rule;
	size_t i;

	json_array_foreach(rules, i, rule)
	{
		fill_rule(s, rule);
	}
	fill_answers(s, json_object_get(identity, "audiences"), rules);
	(void)json_object_del(policy, "identity");
}

static void on_renewal(struct loop *loop, void *arg)
{
	struct network *n = arg;

	(void)loop;
	n->version++;
	door_step(n);
}

/* A little before half of its time, and not for all sandboxes of a daemon that has just started at
 * one moment. */
static uint64_t time_to_renewal(const struct identity *id)
{
	const uint64_t half_us = identity_token_ms(id) * US_PER_MS / 2;
	uint32_t early;

	random_bytes(&early, sizeof(early));
	return half_us - early % (half_us / 4);
}

void identity_renew_later(struct network *n, bool has_tokens)
{
	const struct identity *id = n->sandbox->fleet->config.identity;

	if (!n->renewal && !has_tokens)
		return;
	if (!n->renewal)
		n->renewal = loop_timer_new(n->sandbox->fleet->config.loop, on_renewal, n);
	if (has_tokens && id)
		loop_timer_set_in(n->renewal, time_to_renewal(id));
	else
		loop_timer_set(n->renewal, UINT64_MAX);
}

void identity_renew_all(struct fleet *fleet)
{
	uint64_t in_us = 0;

	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		if (!s->network || !s->network->renewal ||
		    !policy_names_audience(network_wanted(s->network), NULL))
			continue;
		loop_timer_set_in(s->network->renewal, in_us);
		in_us += APART_US;
	}
}

int identity_ask(struct sandbox *s, const char *audience, struct identity_token *ret,
                 struct err *err)
{
	if (!sandbox_is_alive(s) || s->state == SANDBOX_STOPPING)
		return err_set(err, ERR_GONE, 0, "sandbox %s has ended", s->id);
	if (!s->fleet->config.identity) {
		(void)err_set(err, ERR_UNSUPPORTED, 0, "this daemon issues no tokens");
		return err_hint(err, "set `identity.issuer` to the https URL under which clouds "
		                     "find this daemon, and restart it");
	}
	if (!policy_names_audience(network_policy(s), audience)) {
		(void)err_set(err, ERR_FORBIDDEN, 0,
		              "the policy of sandbox %s does not name the audience '%.100s'", s->id,
		              audience);
		return err_hint(err, "name it in `identity.audiences` of its network policy, or in "
		                     "a header as identity://AUDIENCE");
	}
	if (!identity_may_name(s->fleet->config.identity, audience))
		return check_audience(s->fleet, audience, "audience", err);
	return sign(s, audience, IDENTITY_BY_CALL, ret, err);
}
