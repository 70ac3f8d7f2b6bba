// SPDX-License-Identifier: Apache-2.0
/*
 * A connection is judged when it comes and each time that more is known. Its first bytes are kept
 * and sent on unchanged. The address that the guest dialled matters only to rules about addresses.
 * For a rule about names the wall resolves the name itself, so a guest that maps names elsewhere,
 * in /etc/hosts or by its own DNS, still reaches the host that was judged.
 *
 * SSH says no name at all. Where a rule has a key for it, the name has an address of its own inside
 * (stub.c), and who dials that means the name.
 *
 * What is denied is told so in words, if its first bytes show a protocol that has some: a request
 * of HTTP gets 403 (proxy.c), TLS the same inside or, where nothing inside trusts the wall's
 * issuer, an alert. All else is reset.
 */
#include "wall/conn.h"

#include "wall/conn_private.h"
#include "wall/stub.h"
#include "wall/transport/sockaddr.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#define ORIGINAL_DST    80 /* SO_ORIGINAL_DST of IPv4 and IPv6 netfilter; their headers clash */
#define ACCEPTS_A_TURN  16
#define DNS_PORT        53
#define FIRST_BYTES_MAX (CLIENTHELLO_MAX + 4096)

static void conn_deny(struct conn *c, const char *why);

static void on_free(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

static void set_reset(int fd)
{
	const struct linger at_once = {.l_onoff = 1};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

static void conn_end(struct conn *c)
{
	if (c->is_over)
		return;
	c->is_over = true;
	loop_io_removep(&c->io);
	loop_timer_free(c->timer);
	reach_cancel(c->reach);
	pump_free(c->pump);
	proxy_free(c->proxy);
	dns_tcp_free(c->dns);
	signer_free(c->signer);
	conn_leave_member(c);
	if (c->fd >= 0)
		(void)close(c->fd);
	if (c->is_tls_read)
		clienthello_done(&c->reader);
	buf_done(&c->first);
	policy_target_done(&c->via);
	list_remove(&c->link);
	c->door->n_conns--;
	c->door->all->n_conns--;
	loop_defer(c->door->all->loop, on_free, c);
}

static void conn_record(const struct conn *c, enum wall_verdict verdict, const char *why)
{
	door_record(c->door, &(struct door_record){
				     .verdict = verdict,
				     .rule = c->decision.rule,
				     .name = c->name_state == NAME_KNOWN ? &c->name : NULL,
				     .address = c->is_resolved  ? &c->resolved
	                                        : c->is_made_up ? NULL
	                                                        : &c->dialled,
				     .port = c->port,
				     .protocol = c->protocol,
				     .is_recorded = c->decision.is_recorded,
				     .why = why,
				     .in_bytes = c->in_bytes,
				     .out_bytes = c->out_bytes,
				     .took_us = loop_now_us(c->door->all->loop) - c->started_us,
			     });
}

void conn_reset(struct conn *c, enum wall_verdict verdict, const char *why)
{
	conn_record(c, verdict, why);
	if (c->fd >= 0)
		set_reset(c->fd);
	conn_end(c);
}

struct judge_facts conn_facts(const struct conn *c)
{
	return (struct judge_facts){
		.name_state = c->name_state,
		.name = c->name_state == NAME_KNOWN ? &c->name : NULL,
		.dialled = &c->dialled,
		.resolved = c->is_resolved ? &c->resolved : NULL,
		.port = c->port,
		.protocol = c->protocol,
	};
}

static void on_count(uint64_t in_bytes, uint64_t out_bytes, void *arg)
{
	struct conn *c = arg;

	c->in_bytes += in_bytes;
	c->out_bytes += out_bytes;
	door_count(c->door, in_bytes, out_bytes);
	conn_count_member(c, in_bytes, out_bytes);
}

static void on_pump_done(struct loop *loop, void *arg)
{
	struct conn *c = arg;

	(void)loop;
	conn_record(c, WALL_ALLOWED, c->member[0] ? "it is a member of the group" : "");
	conn_end(c);
}

void conn_pump(struct conn *c, int up_fd)
{
	const struct pump_config config = {
		.loop = c->door->all->loop,
		.guest_fd = c->fd,
		.up_fd = up_fd,
		.first = &c->first,
		.in_pace = &c->door->in_pace,
		.out_pace = &c->door->out_pace,
		.count = on_count,
		.done = on_pump_done,
		.arg = c,
	};

	loop_io_removep(&c->io);
	loop_timer_set(c->timer, UINT64_MAX);
	on_count(0, c->first.len, c);
	c->fd = -1; /* the pump has it, also if it fails */
	if (pump_new(&config, &c->pump) < 0)
		conn_reset(c, WALL_FAILED, "no room");
	buf_done(&c->first);
}

static bool may_dial(const struct address *a, void *arg)
{
	struct conn *c = arg;
	struct judge_facts facts = conn_facts(c);
	struct judge_decision d;

	if (c->dial == DIAL_PROXY)
		return judge_target_is_open(&c->door->all->site, &c->via.url, a);
	facts.resolved = a;
	d = judge(c->door->policy, &c->door->all->site, &facts);
	c->decision = d;
	return d.outcome == JUDGE_ALLOW && d.dial == DIAL_NAME;
}

static const struct policy_target *proxy_of(const struct conn *c, const struct judge_decision *d)
{
	const struct policy *p = c->door->policy;

	return d->dial == DIAL_PROXY
	               ? policy_proxy_of(p, d->rule == JUDGE_NO_RULE ? NULL : &p->rules[d->rule])
	               : NULL;
}

static bool leads_the_same_way(const struct conn *c, const struct judge_decision *d)
{
	return d->outcome == JUDGE_ALLOW && d->dial == c->dial &&
	       policy_target_is_equal(&c->via, proxy_of(c, d));
}

/* Whether the connection that was made may be used. */
static bool judge_again(struct conn *c)
{
	struct judge_facts facts = conn_facts(c);

	c->decision = judge(c->door->policy, &c->door->all->site, &facts);
	return leads_the_same_way(c, &c->decision);
}

static void on_reached(enum reach_result result, int fd, const struct address *address, void *arg)
{
	struct conn *c = arg;

	c->reach = NULL;
	c->resolved = *address;
	c->is_resolved = c->dial == DIAL_NAME && result != REACH_NO_ADDRESS;
	switch (result) {
	case REACH_OK:
		/* Judged for this address, by the current policy. */
		if (judge_again(c)) {
			door_learn(c->door, c->name_state == NAME_KNOWN ? &c->name : NULL,
			           c->dial == DIAL_PROXY ? &c->dialled : address, c->decision.dial,
			           c->port);
			conn_pump(c, fd);
			break;
		}
		(void)close(fd);
		conn_deny(c, door_why(&c->decision));
		break;
	case REACH_NO_ADDRESS:
		conn_reset(c, WALL_FAILED, "the name has no address");
		break;
	case REACH_DENIED:
		conn_deny(c,
		          c->dial == DIAL_PROXY ? "its proxy is closed" : door_why(&c->decision));
		break;
	case REACH_REFUSED:
		conn_reset(c, WALL_FAILED, "its proxy does not let through");
		break;
	case REACH_FAILED:
		conn_reset(c, WALL_FAILED, "it does not answer");
		break;
	}
}

/* A rule about names leads to the name, others to the address that the guest dialled. */
static bool is_by_name(const struct conn *c)
{
	return c->dial == DIAL_NAME ||
	       (c->dial == DIAL_PROXY && c->name_state == NAME_KNOWN &&
	        (c->decision.rule == JUDGE_NO_RULE ||
	         c->door->policy->rules[c->decision.rule].match.n_domains > 0));
}

static void conn_reach(struct conn *c, enum judge_dial dial)
{
	struct reach_want want = {
		.loop = c->door->all->loop,
		.resolver = c->door->all->resolver,
		.address = c->dialled,
		.port = c->port,
		.may_dial = may_dial,
		.done = on_reached,
		.arg = c,
	};

	c->dial = dial;
	policy_target_copy(&c->via, proxy_of(c, &c->decision));
	want.name = is_by_name(c) ? &c->name : NULL;
	want.proxy = dial == DIAL_PROXY ? &c->via : NULL;
	loop_io_removep(&c->io); /* what else it sends waits */
	loop_timer_set(c->timer, UINT64_MAX);
	c->reach = reach_start(&want);
}

static void on_proxy_done(struct loop *loop, void *arg)
{
	(void)loop;
	conn_end(arg);
}

void conn_proxy(struct conn *c, bool is_tls)
{
	struct host host = {.is_name = c->name_state == NAME_KNOWN, .address = c->dialled};
	const struct proxy_config config = {
		.door = c->door,
		.guest_fd = c->fd,
		.dialled = c->dialled,
		.port = c->port,
		.tls_host = is_tls ? &host : NULL,
		.offers_both = is_tls && c->hello.offers_http1 && c->hello.offers_h2,
		.first = &c->first,
		.refusal = is_tls ? c->refusal : NULL,
		.done = on_proxy_done,
		.arg = c,
	};

	host.name = c->name;
	loop_io_removep(&c->io);
	loop_timer_set(c->timer, UINT64_MAX);
	c->fd = -1;
	if (proxy_new(&config, &c->proxy) < 0)
		conn_reset(c, WALL_FAILED, "no room");
	buf_done(&c->first);
}

/* A rule must see inside TLS. */
static void conn_open(struct conn *c)
{
	if (c->protocol == PROTOCOL_TLS && c->door->all->secure)
		conn_proxy(c, /* is_tls= */ true);
	else
		conn_reset(c, WALL_DENIED, "its requests cannot be seen");
}

/* access_denied (RFC 8446, 6.2), fatal, and the end. */
static void conn_alert(struct conn *c)
{
	static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 49};

	(void)!send(c->fd, alert, sizeof(alert), MSG_DONTWAIT | MSG_NOSIGNAL);
	conn_record(c, WALL_DENIED, c->refusal);
	conn_end(c);
}

/* By a reply inside, for each request. */
static void conn_tell(struct conn *c)
{
	conn_record(c, WALL_DENIED, c->refusal);
	conn_proxy(c, /* is_tls= */ true);
}

static void conn_deny(struct conn *c, const char *why)
{
	bool has_issuer = c->door->all->secure && c->door->is_trusting && !c->door->policy->resets;

	c->refusal = why;
	if (c->name_state == NAME_UNKNOWN &&
	    (conn_guest_speaks_first(c) || stub_has_denied(&c->dialled)))
		conn_peek(c);
	else if (c->protocol != PROTOCOL_TLS)
		conn_reset(c, WALL_DENIED, why);
	else if (has_issuer)
		conn_tell(c);
	else
		conn_alert(c);
}

void conn_judge(struct conn *c)
{
	struct judge_facts facts = conn_facts(c);

	c->refusal = NULL;
	c->decision = judge(c->door->policy, &c->door->all->site, &facts);
	switch (c->decision.outcome) {
	case JUDGE_DENY:
		conn_deny(c, door_why(&c->decision));
		break;
	case JUDGE_NEED_NAME:
		if (c->name_state == NAME_UNKNOWN)
			conn_peek(c);
		else
			conn_deny(c, "nothing tells its name");
		break;
	case JUDGE_NEED_REQUEST:
		conn_open(c);
		break;
	case JUDGE_NEED_ADDRESS:
		conn_reach(c, DIAL_NAME);
		break;
	case JUDGE_ALLOW:
		if (c->decision.dial == DIAL_NOTHING)
			conn_open(c);
		else
			conn_reach(c, c->decision.dial);
		break;
	}
}

static void on_part_done(struct loop *loop, void *arg)
{
	(void)loop;
	conn_end(arg);
}

static struct conn *conn_new(struct door *door, int fd)
{
	struct conn *c = xnew0(struct conn);

	*c = (struct conn){.door = door, .fd = fd};
	c->decision.rule = JUDGE_NO_RULE;
	c->started_us = loop_now_us(door->all->loop);
	c->timer = loop_timer_new(door->all->loop, conn_on_silence, c);
	buf_init(&c->first, FIRST_BYTES_MAX);
	list_append(&door->conns, &c->link);
	door->n_conns++;
	door->all->n_conns++;
	return c;
}

/* What the guest dialled, before it was redirected here. */
static int find_dialled(int fd, struct address *ret, uint16_t *ret_port)
{
	struct sockaddr_storage own, sa = {0};
	socklen_t own_len = sizeof(own), len = sizeof(sa);
	struct address door;
	uint16_t door_port;
	int r;

	if (getsockname(fd, (struct sockaddr *)&own, &own_len) < 0)
		return -errno;
	if (getsockopt(fd, own.ss_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, ORIGINAL_DST, &sa,
	               &len) < 0)
		return -errno;
	r = sockaddr_to(&sa, ret, ret_port);
	if (r == 0)
		r = sockaddr_to(&own, &door, &door_port);
	return r == 0 && *ret_port != DNS_PORT && address_is_equal(ret, &door) ? -ELOOP : r;
}

static void conn_sign(struct conn *c)
{
	if (signer_new(c->door, take_fd(&c->fd), on_part_done, c, &c->signer) < 0)
		conn_reset(c, WALL_FAILED, "no room");
}

/* A name is known by the address that it has inside. */
static void conn_begin_judging(struct conn *c)
{
	const struct hostname *name = stub_ssh_name(c->door, &c->dialled, c->port);

	c->is_made_up = name || stub_has_denied(&c->dialled);
	if (name) {
		c->name = *name;
		c->name_state = NAME_KNOWN;
		c->protocol = PROTOCOL_OTHER;
	}
	conn_judge(c);
}

static void conn_begin(struct conn *c)
{
	const int on = 1;
	static const struct range_site everybody;

	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	if (find_dialled(c->fd, &c->dialled, &c->port) < 0) {
		c->dialled = (struct address){.bits = 32};
		conn_reset(c, WALL_DENIED, "it dialled the door itself");
	} else if (c->port == DNS_PORT) {
		if (dns_tcp_new(c->door, take_fd(&c->fd), on_part_done, c, &c->dns) < 0)
			conn_reset(c, WALL_FAILED, "no room");
	} else if (range_kind_of(&everybody, &c->dialled) == RANGE_LOOPBACK) {
		conn_reset(c, WALL_DENIED, "it dialled the door itself");
	} else if (signer_is_dialled(&c->dialled, c->port) && policy_has_ssh(c->door->policy)) {
		conn_sign(c);
	} else if (!conn_begin_member(c)) {
		conn_begin_judging(c);
	}
}

/* A door may have as many connections as are left free in all. So doors that want many are stopped
 * while some are left: with k such doors, one part in k + 1 stays free for doors with few. */
static bool has_share(const struct door *door)
{
	const struct doors *all = door->all;

	return all->n_conns <= all->conns_max && door->n_conns <= all->conns_max - all->n_conns + 1;
}

static bool accept_one(struct door *door, int listener_fd)
{
	uint64_t most = door->policy->connections_max ? door->policy->connections_max
	                                              : door->all->connections_max;
	int fd = accept4(listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct conn *c;

	if (fd < 0)
		return false;
	c = conn_new(door, fd);
	if (door->n_conns > most)
		conn_reset(c, WALL_DENIED, "it has too many connections");
	else if (!has_share(door))
		conn_reset(c, WALL_FAILED, "all sandboxes together have too many connections");
	else
		conn_begin(c);
	return true;
}

void conn_accept(struct door *door, int listener_fd)
{
	for (int i = 0; i < ACCEPTS_A_TURN; i++)
		if (!accept_one(door, listener_fd))
			break;
}

/* A connection that is not decided yet is judged again before anything is dialled. */
static bool is_still_allowed(const struct conn *c)
{
	struct judge_facts facts = conn_facts(c);
	struct judge_decision d;

	if (c->member[0])
		return conn_member_is_allowed(c);
	if (c->proxy)
		return proxy_is_still_allowed(c->proxy);
	if (c->signer)
		return policy_has_ssh(c->door->policy);
	if (!c->pump && !c->reach)
		return true;
	d = judge(c->door->policy, &c->door->all->site, &facts);
	if (c->reach && d.outcome == JUDGE_NEED_ADDRESS)
		return c->dial == DIAL_NAME;
	return leads_the_same_way(c, &d);
}

void conn_judge_again(struct door *door)
{
	list_for_each (&door->conns, struct conn, c, link) {
		if (is_still_allowed(c))
			continue;
		conn_record(c, WALL_DENIED,
		            c->member[0] ? "it has left the group" : "the policy was changed");
		conn_end(c);
	}
}

void conn_cut_all(struct door *door)
{
	struct conn *c;

	while ((c = list_first(&door->conns, struct conn, link)))
		conn_end(c);
}
