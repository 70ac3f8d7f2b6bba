// SPDX-License-Identifier: Apache-2.0
/*
 * Which HTTP a guest gets that offers both. No message is translated, so it can only have HTTP/2
 * if its server speaks that too, and the guest is waiting for the answer before it has asked for
 * anything. To dial the server just then would be to dial without a request that was judged. So the
 * first connection of a sandbox to a host is one of HTTP/1.1, and the wall learns from it:
 *
 *	request of the guest is judged --> TLS with the server, which is offered both
 *	    it takes HTTP/1.1: the request follows
 *	    it takes HTTP/2:   the door keeps that; the request goes by a new connection
 *
 * Later connections to that host get HTTP/2 while the door remembers it. Each door learns for
 * itself: what one sandbox has reached is nothing that another may see.
 *
 * A guest that is asked to choose would mostly lose by HTTP/2 where requests of one host lead to
 * different places, because a connection has one of them at a time, and where its window would be
 * narrow (h2.c). There it gets HTTP/1.1.
 */
#include "wall/h2/h2_private.h"

#define KNOWN_US (3600 * SECOND_US)

static bool has_one_way(const struct proxy *p)
{
	const struct policy *policy = p->config.door->policy;

	for (size_t i = 0; i < policy->n_rules; i++) {
		const struct policy_rule *rule = &policy->rules[i];

		if (rule->action != ACTION_FORWARD && rule->action != ACTION_PROXY)
			continue;
		if (rule->match.n_domains == 0 ||
		    policy_rule_is_about(rule, &p->tls_host.name, p->config.port))
			return false;
	}
	return true;
}

static bool may_choose(const struct proxy *p)
{
	return p->config.offers_both && !p->config.refusal && p->is_tls && p->tls_host.is_name &&
	       has_one_way(p);
}

static struct door_h2_host *find(const struct proxy *p)
{
	struct door *door = p->config.door;

	for (size_t i = 0; i < DOOR_H2_HOSTS; i++) {
		struct door_h2_host *h = &door->h2_hosts[i];

		if (h->until_us > loop_now_us(p->loop) && h->port == p->config.port &&
		    host_is_equal(&h->host, &p->tls_host))
			return h;
	}
	return NULL;
}

bool proxy_prefers_h2(const struct proxy *p)
{
	return may_choose(p) && p->config.door->n_wide_h2 < H2_WIDE_MAX && find(p);
}

/* A request with a body might have given some of it away before the server is known. */
bool proxy_asks_version(const struct proxy *p)
{
	return !p->has_asked_version && may_choose(p) && p->request_head.framing == HTTP_NO_BODY &&
	       !find(p);
}

void proxy_know_h2(const struct proxy *p, bool is_spoken)
{
	struct door_h2_host *h = find(p), *hosts = p->config.door->h2_hosts;

	if ((!h && !is_spoken) || p->up_way.port != p->config.port ||
	    !host_is_equal(&p->up_way.host, &p->tls_host))
		return; /* a rule has led elsewhere: nothing is known of the host itself */
	if (!h) {       /* the place of the one that was learnt first */
		h = &hosts[0];
		for (size_t i = 1; i < DOOR_H2_HOSTS; i++)
			if (hosts[i].until_us < h->until_us)
				h = &hosts[i];
	}
	h->host = p->tls_host;
	h->port = p->config.port;
	h->until_us = is_spoken ? loop_now_us(p->loop) + KNOWN_US : 0;
}
