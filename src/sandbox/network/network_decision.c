// SPDX-License-Identifier: Apache-2.0
#include "sandbox/network/network_decision.h"

#include "net/policy/policy.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/network_private.h"

#include <string.h>

static const char *protocol_name(uint32_t protocol)
{
	return protocol == PROTOCOL_TLS ? "tls" : protocol == PROTOCOL_HTTP ? "http" : NULL;
}

/* A name may be longer than EVENT_TEXT_MAX; it is not cut, since suggested policies use it. */
static void put_name(struct json_writer *w, const struct wall_decision *d)
{
	struct hostname name;
	const char *why;

	if (hostname_parse(d->name, strlen(d->name), &name, &why) == 0)
		json_put_str(w, "name", name.text);
	else
		json_put_null(w, "name");
}

static void put_place(struct json_writer *w, const struct wall_decision *d)
{
	put_name(w, d);
	event_put_text(w, "address", d->address[0] ? d->address : NULL);
	json_put_u64(w, "port", d->port);
}

static void put_decision(struct json_writer *w, const struct policy *p,
                         const struct wall_decision *d, const char *verdict)
{
	const ssize_t rule = d->rule == WALL_NO_RULE ? -1 : policy_rule_number(p, d->rule);

	json_put_str(w, "verdict", verdict);
	json_put_str(w, "kind", d->is_dns ? "dns" : "connection");
	put_place(w, d);
	json_put_str(w, "protocol", protocol_name(d->protocol));
	if (rule < 0)
		json_put_null(w, "rule");
	else
		json_put_u64(w, "rule", (uint64_t)rule);
	event_put_text(w, "reason", d->why);
	json_put_bool(w, "recorded", d->is_recorded);
	json_put_u64(w, "in_bytes", d->in_bytes);
	json_put_u64(w, "out_bytes", d->out_bytes);
	json_put_u64(w, "took_us", d->took_us);
	json_put_u64(w, "left_out", d->n_left_out);
}

void network_note_decision(struct sandbox *s, const struct wall_decision *d)
{
	static const char *const verdicts[] = {
		[WALL_DENIED] = "denied", [WALL_ALLOWED] = "allowed", [WALL_FAILED] = "failed"};
	bool is_learnt = d->head.op == WALL_LEARNT;
	struct event ev;
	struct json_writer *w;

	if (d->verdict >= ARRAY_SIZE(verdicts) || (is_learnt && !network_may_learn(s)))
		return;
	w = event_begin(&ev, s->fleet->config.events,
	                is_learnt ? EVENT_POLICY_LEARNT : EVENT_POLICY_DECIDED, s->project_id,
	                s->id);
	if (is_learnt)
		put_place(w, d);
	else
		put_decision(w, s->network ? network_wanted(s->network) : network_policy(s), d,
		             verdicts[d->verdict]);
	event_end(&ev);
}
