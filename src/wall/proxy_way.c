// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the connection that carries a request. The judge's decision makes a way: to the host
 * itself, by its name or at the address that the guest dialled; to a proxy, which is given the
 * host; or to where a rule forwards to. A connection is used for the next request only if that has
 * exactly the same way and is still allowed at its address. So the fields that a rule sets for one
 * host are never sent to another.
 *
 * A server may close a connection between two requests, and the second then has no reply. It is
 * sent once more, on a new connection, if that is safe: no byte of a reply has come, the whole
 * request is still here, and either it is idempotent (RFC 9110, 9.2.2) or nothing of it was sent.
 * Any other request gets 502, since it may have arrived.
 */
#include "wall/proxy_private.h"

#include <string.h>

static struct judge_facts facts_of(const struct proxy *p, const struct proxy_request *request,
                                   const struct address *resolved)
{
	const struct host *host = p->is_tls ? &p->tls_host : &request->host;

	return (struct judge_facts){
		.name_state = host->is_name ? NAME_KNOWN : NAME_NONE,
		.name = host->is_name ? &host->name : NULL,
		.dialled = &p->config.dialled,
		.resolved = resolved,
		.port = p->config.port,
		.protocol = p->is_tls ? PROTOCOL_TLS : PROTOCOL_HTTP,
		.request = &request->judge,
	};
}

struct judge_decision proxy_judge_at(const struct proxy *p, const struct proxy_request *request,
                                     const struct address *resolved)
{
	const struct judge_facts facts = facts_of(p, request, resolved);

	return judge(p->config.door->policy, &p->config.door->all->site, &facts);
}

const struct policy_rule *proxy_rule_of(const struct proxy *p, const struct judge_decision *d)
{
	return d->rule == JUDGE_NO_RULE ? NULL : &p->config.door->policy->rules[d->rule];
}

struct proxy_way proxy_find_way(const struct proxy *p, const struct proxy_request *request,
                                const struct judge_decision *d)
{
	const struct policy_rule *rule = proxy_rule_of(p, d);
	struct proxy_way way = {
		.dial = d->outcome == JUDGE_NEED_ADDRESS ? DIAL_NAME : d->dial,
		.host = p->is_tls ? p->tls_host : request->host,
		.port = p->config.port,
		.is_tls = p->is_tls,
	};

	if (way.dial == DIAL_PROXY)
		way.target = policy_proxy_of(p->config.door->policy, rule);
	if (way.dial == DIAL_NOTHING && rule) {
		way.target = &rule->target;
		way.host = rule->target.url.host;
		way.port = rule->target.url.port;
		way.is_tls = rule->target.url.scheme == URL_HTTPS;
	}
	return way;
}

bool proxy_is_under_way(const struct proxy *p, const struct proxy_way *way)
{
	return way->dial == p->up_way.dial && way->port == p->up_way.port &&
	       way->is_tls == p->up_way.is_tls && host_is_equal(&way->host, &p->up_way.host) &&
	       policy_target_is_equal(&p->up_target, way->target);
}

bool proxy_is_allowed_there(const struct proxy *p, const struct proxy_request *request,
                            struct judge_decision *ret)
{
	struct proxy_way way;

	*ret = proxy_judge_at(p, request, p->up_way.dial == DIAL_NAME ? &p->up_address : NULL);
	if (ret->outcome != JUDGE_ALLOW)
		return false;
	way = proxy_find_way(p, request, ret);
	return proxy_is_under_way(p, &way);
}

/* For a connection between two requests: whether any request could be allowed. In plain HTTP each
 * names its own host. */
static bool could_be_allowed(const struct proxy *p)
{
	struct judge_facts facts = {
		.dialled = &p->config.dialled,
		.port = p->config.port,
		.protocol = p->is_tls ? PROTOCOL_TLS : PROTOCOL_HTTP,
	};
	const struct door *door = p->config.door;

	if (p->is_tls) {
		facts.name_state = p->tls_host.is_name ? NAME_KNOWN : NAME_NONE;
		facts.name = p->tls_host.is_name ? &p->tls_host.name : NULL;
	}
	return judge(door->policy, &door->all->site, &facts).outcome != JUDGE_DENY;
}

bool proxy_is_still_allowed(struct proxy *p)
{
	struct judge_decision d;

	if (p->config.refusal)
		return true; /* nothing of it goes anywhere */
	switch (p->state) {
	case EXCHANGING:
	case TUNNELLING:
		return proxy_is_allowed_there(p, &p->request, &d);
	case READING:
		proxy_end_close(&p->up); /* its host may be denied now; the next request asks */
		return could_be_allowed(p);
	case STREAMING:
		return h2_is_still_allowed(p->h2) && could_be_allowed(p);
	case CLOSING:
		return true;
	case REACHING:
		break;
	}
	d = proxy_judge_at(p, &p->request, NULL);
	return d.outcome == JUDGE_ALLOW || d.outcome == JUDGE_NEED_ADDRESS;
}

static bool may_dial(const struct address *a, void *arg)
{
	struct proxy *p = arg;

	if (p->up_target.url_text)
		return judge_target_is_open(&p->config.door->all->site, &p->up_target.url, a);
	p->decision = proxy_judge_at(p, p->reaching, a);
	return p->decision.outcome == JUDGE_ALLOW && p->decision.dial == DIAL_NAME;
}

/* The address of a proxy is not recorded: the guest did not want that. */
static void learn(struct proxy *p, const struct proxy_request *request)
{
	const struct host *host = p->is_tls ? &p->tls_host : &request->host;

	door_learn(p->config.door, host->is_name ? &host->name : NULL,
	           p->up_target.url_text ? &p->config.dialled : &p->up_address, p->up_way.dial,
	           p->config.port);
}

/* Covers all rules about the host: what one rule has sent may come back in a reply under
 * another. */
static struct scrub *find_scrub(const struct proxy *p, const struct proxy_request *request)
{
	const struct host *host = p->is_tls ? &p->tls_host : &request->host;

	return host->is_name ? scrub_new(p->config.door->policy, &host->name, p->config.port)
	                     : NULL;
}

int proxy_send_head(struct proxy *p, struct buf *out, const struct http_head *head,
                    const struct proxy_request *request, const struct judge_decision *d,
                    struct scrub **ret_scrub)
{
	const struct policy_rule *rule = proxy_rule_of(p, d);
	struct proxy_rewrite rewrite = {0};

	scrub_free(*ret_scrub);
	*ret_scrub = find_scrub(p, request);
	rewrite.is_plain = *ret_scrub != NULL;
	if (rule && rule->action == ACTION_TRANSFORM) {
		rewrite.set = rule->headers;
		rewrite.n_set = rule->n_headers;
	} else if (rule && rule->action == ACTION_FORWARD) {
		rewrite.forward = &rule->target.url;
		rewrite.is_from_tls = p->is_tls;
		rewrite.from_port = p->config.port;
		rewrite.sandbox_id = p->config.door->id;
	}
	if (proxy_request_write(out, head, request, &rewrite) < 0)
		return -EINVAL;
	learn(p, request);
	return 0;
}

static void begin_exchange(struct proxy *p)
{
	if (proxy_send_head(p, &p->up.out, &p->request_head, &p->request, &p->decision, &p->scrub) <
	    0) {
		proxy_answer(p, 400, WALL_DENIED, "its head cannot be sent on");
		return;
	}
	p->out_bytes += p->up.out.len;
	http_decoder_init(&p->request_body, p->request_head.framing, p->request_head.length);
	p->is_request_over = p->request_head.framing == HTTP_NO_BODY;
	p->has_taken_body = p->up.has_written = false;
	proxy_move(p, EXCHANGING, EXCHANGE_US);
}

/* The TLS handshake happens by itself, before the first byte of the request is sent. */
static int open_up(struct proxy *p, int fd)
{
	int r = proxy_end_open(&p->up, fd);
	enum secure_offer offer = p->state == STREAMING   ? SECURE_H2
	                          : proxy_asks_version(p) ? SECURE_EITHER
	                                                  : SECURE_HTTP1;

	p->is_up_used = false;
	if (r == 0 && p->up_way.is_tls) {
		p->up.is_asked = offer == SECURE_EITHER;
		p->has_asked_version |= p->up.is_asked;
		r = secure_meet_server(p->config.door->all->secure, &p->up.t, &p->up_way.host,
		                       offer);
	}
	return r;
}

const char *proxy_why_unreached(const struct proxy *p, enum reach_result result, int *ret_status)
{
	*ret_status = result == REACH_DENIED ? 403 : 502;
	switch (result) {
	case REACH_DENIED:
		return p->up_target.url_text ? "where its rule leads is closed"
		                             : door_why(&p->decision);
	case REACH_NO_ADDRESS:
		return "the name has no address";
	case REACH_REFUSED:
		return "its proxy does not let through";
	case REACH_OK:
	case REACH_FAILED:
		break;
	}
	return "it does not answer";
}

static void on_reached(enum reach_result result, int fd, const struct address *address, void *arg)
{
	struct proxy *p = arg;
	bool is_open = false;
	const char *why;
	int status;

	p->reach = NULL;
	if (result == REACH_OK) {
		p->up_address = *address;
		is_open = open_up(p, fd) == 0;
	}
	if (p->state == STREAMING) {
		h2_on_reached(p->h2, result, is_open);
	} else if (result != REACH_OK) {
		why = proxy_why_unreached(p, result, &status);
		proxy_answer(p, status, status == 403 ? WALL_DENIED : WALL_FAILED, why);
	} else if (!is_open) {
		proxy_answer(p, 502, WALL_FAILED, "no room");
	} else if (proxy_is_allowed_there(p, &p->request, &p->decision)) {
		begin_exchange(p);
	} else {
		proxy_answer(p, 403, WALL_DENIED, door_why(&p->decision));
	}
	proxy_step(p);
}

/* A rule about names leads to the name, others to where the guest wanted to go. */
static bool is_by_name(const struct proxy *p)
{
	const struct policy_rule *rule = proxy_rule_of(p, &p->decision);

	if (p->up_way.dial == DIAL_ADDRESS || !p->up_way.host.is_name)
		return false;
	return p->up_way.dial != DIAL_PROXY || !rule || rule->match.n_domains > 0;
}

int proxy_reach(struct proxy *p, const struct proxy_way *way, const struct proxy_request *request)
{
	struct reach_want want = {
		.loop = p->loop,
		.resolver = p->config.door->all->resolver,
		.address = way->dial == DIAL_NOTHING ? way->host.address : p->config.dialled,
		.port = way->port,
		.may_dial = may_dial,
		.done = on_reached,
		.arg = p,
	};

	proxy_end_close(&p->up);
	p->up_way = *way;
	p->up_way.target = NULL; /* the policy's, which may go */
	policy_target_copy(&p->up_target, way->target);
	p->reaching = request;
	want.name = is_by_name(p) ? &p->up_way.host.name : NULL;
	want.proxy = way->dial == DIAL_PROXY ? &p->up_target : NULL;
	if (way->dial == DIAL_NOTHING && !want.name && !may_dial(&want.address, p))
		return -EACCES;
	p->reach = reach_start(&want);
	return 0;
}

static void begin_reach(struct proxy *p, const struct proxy_way *way)
{
	if (proxy_reach(p, way, &p->request) < 0) {
		proxy_answer(p, 403, WALL_DENIED, "where its rule leads is closed");
		return;
	}
	p->state = REACHING;
	loop_timer_set(p->timer, UINT64_MAX);
}

void proxy_judge(struct proxy *p)
{
	const struct policy_rule *rule;
	struct proxy_way way;

	p->decision = proxy_judge_at(p, &p->request, NULL);
	rule = proxy_rule_of(p, &p->decision);
	if (p->decision.outcome != JUDGE_ALLOW && p->decision.outcome != JUDGE_NEED_ADDRESS) {
		proxy_answer(p, 403, WALL_DENIED, door_why(&p->decision));
		return;
	}
	if (p->decision.outcome == JUDGE_ALLOW && rule && rule->action == ACTION_RESPOND) {
		proxy_respond(p, rule);
		return;
	}
	way = proxy_find_way(p, &p->request, &p->decision);
	if (proxy_is_under_way(p, &way) && proxy_end_is_idle(&p->up) &&
	    proxy_is_allowed_there(p, &p->request, &p->decision))
		begin_exchange(p);
	else
		begin_reach(p, &way);
}

static bool is_idempotent(const char *method)
{
	static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"};

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (strcmp(method, methods[i]) == 0)
			return true;
	return false;
}

bool proxy_try_again(struct proxy *p)
{
	if (secure_is_h2(&p->up.t)) /* it has not been sent at all */
		proxy_know_h2(p, true);
	else if (!p->is_up_used || p->in_bytes > 0 || p->has_taken_body ||
	         (p->up.has_written && !is_idempotent(p->request_head.method)))
		return false;
	proxy_end_close(&p->up);
	p->out_bytes = 0;
	proxy_judge(p); /* by the policy of now */
	return true;
}
