// SPDX-License-Identifier: Apache-2.0
/*
 * network_step() brings what is in force to what the policy wants, one request at a time:
 *
 *	closed --MSG_DOOR--> sockets --WALL_OPEN--> open --WALL_POLICY--> open
 *	   ^------------MSG_DOOR_CLOSE <--WALL_CLOSE---+
 *
 * If the policy changes during a request, that is handled after the answer. When the wall dies, the
 * listeners of all doors vanish with it, so connections inside are refused; the next wall gets new
 * ones. A failed request is repeated as long as the sandbox runs.
 *
 * If the policy looks into TLS, or denies anything, the wall's answer has the certificate that
 * programs inside must trust: that of the sandbox's own issuer, or of the one of refusals
 * (wall/transport/issuer.h). It is then installed, and callers that wait for the policy wait for
 * that too. If it cannot be installed (the sandbox has broken its own files), the policy is still
 * in force.
 *
 * A spare may have a door ahead, by a policy that denies everything (network_ahead()). It then
 * trusts the issuer of refusals, and its owner's policy is one message to the wall.
 */
#include "sandbox/network/network.h"

#include "base/log.h"
#include "sandbox/model/registry.h"
#include "sandbox/model/sandbox_events.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/ca_trust.h"
#include "sandbox/network/network_decision.h"
#include "sandbox/network/secret_fill.h"
#include "wall/client.h"

#include <assert.h>
#include <string.h>

#define DENY_ALL     "\"deny-all\""
#define AGAIN_US     UINT64_C(1000000)
#define LAST_WORD_US UINT64_C(1000000)   /* that an end waits for the wall to count its bytes */
#define LEARNT_MAX   4096                /* that a wall which lies can have written of one policy */
#define BYTES_MAX    (UINT64_C(1) << 50) /* that a wall which lies can charge at once */

static_assert((int)DOOR_SOCKETS == WALL_SOCKETS, "a door's sockets do not fit the wall's message");

struct network_waiter {
	network_fn fn;
	void *arg;
	struct list link;
};

struct network {
	struct sandbox *sandbox;
	struct policy *policy;
	struct policy *lent;       /* in force instead, or NULL */
	uint64_t version, applied; /* of what is wanted; 0 = none */
	bool is_open;
	uint64_t sending;       /* the version that the wall is being told */
	uint64_t ask;           /* of the broker, under way */
	uint64_t call;          /* of the wall, likewise */
	char *certificate;      /* that programs inside have to trust, or NULL */
	bool is_own;            /* of the sandbox's own issuer, not of the one of refusals */
	struct ca_trust *trust; /* being installed */
	bool is_trusted;        /* it was, in this life of the sandbox */
	unsigned n_learnt;      /* under this version */
	char denied[HOST_SIZE]; /* the last one; "": none */
	struct list waiters;
	struct loop_timer *again;
	uint64_t last_call; /* of the wall: to close for good, and tell the last bytes */
	void (*over)(struct sandbox *s);
};

static void network_step(struct network *n);

/* Of a text with credentials. */
static void wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_done(b);
}

static const struct policy *wanted(const struct network *n)
{
	return n->lent ? n->lent : n->policy;
}

bool network_wants_door(const struct policy *policy)
{
	return policy->n_rules > 0 || policy->mode == POLICY_RECORD;
}

static bool wants_door(const struct network *n)
{
	return network_wants_door(wanted(n));
}

static int write_policy(const struct policy *policy, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	policy_write(policy, &w, NULL, SECRETS_SHOWN);
	return json_writer_end(&w);
}

int network_check(const struct policy *policy, const char *field, struct err *err)
{
	auto_call(buf_done) struct buf out = BUF_INIT(WALL_TEXT_MAX);

	if (write_policy(policy, &out) == 0)
		return 0;
	return err_field(err, field, "has more than %zu bytes", WALL_TEXT_MAX);
}

int network_read(const json_t *value, const char *field, struct policy **ret, struct err *err)
{
	auto_call(policy_freep) struct policy *p = NULL;
	int r = 0;

	if (!value) {
		*ret = policy_new();
		return 0;
	}
	r = policy_read(value, field, &p, err);
	if (r == 0)
		r = network_check(p, field, err);
	if (r < 0)
		return r;
	*ret = take_ptr(p);
	return 0;
}

/* The policy as the wall is told it. network_read() has seen that it fits; if the values of secrets
 * make it too large, nothing may pass. */
static void fill_policy(const struct network *n, struct buf *out)
{
	const struct sandbox *s = n->sandbox;
	int r = secret_is_in_policy(wanted(n), NULL)
	                ? secret_fill_policy(s->fleet, s->project_id, wanted(n), out)
	                : write_policy(wanted(n), out);

	if (r == 0)
		return;
	buf_truncate(out, 0);
	log_error("sandbox.policy_too_large", "id=%s", s->id);
	(void)!buf_append(out, DENY_ALL, strlen(DENY_ALL));
}

static void go_over(struct network *n)
{
	void (*over)(struct sandbox * s) = n->over;

	n->over = NULL;
	if (over)
		over(n->sandbox);
}

static void on_again(struct loop *loop, void *arg)
{
	struct network *n = arg;

	(void)loop;
	if (!n->over) {
		network_step(n);
		return;
	}
	wall_client_cancel(n->sandbox->fleet->config.wall, n->last_call);
	n->last_call = 0;
	go_over(n); /* without the wall's last word */
}

static struct network *network_of(struct sandbox *s)
{
	struct network *n = s->network;

	if (n)
		return n;
	n = s->network = xnew0(struct network);
	n->sandbox = s;
	n->policy = policy_new();
	list_init(&n->waiters);
	n->again = loop_timer_new(s->fleet->config.loop, on_again, n);
	return n;
}

void network_set(struct sandbox *s, struct policy *policy)
{
	struct network *n = network_of(s);

	policy_free(n->policy);
	n->policy = policy;
	n->version++;
	n->n_learnt = 0;
}

void network_lend(struct sandbox *s, struct policy *policy)
{
	struct network *n = network_of(s);

	policy_free(n->lent);
	n->lent = policy;
	n->denied[0] = '\0';
	n->version++;
}

const struct policy *network_policy(const struct sandbox *s)
{
	static const struct policy nothing;

	return s->network ? s->network->policy : &nothing;
}

bool network_is_open(const struct sandbox *s)
{
	return s->network && s->network->is_open;
}

/* What the daemon builds in its own sandboxes becomes templates, which are to be the same whoever
 * builds them: no issuer of one sandbox is in them. */
static bool needs_trust(const struct sandbox *s, const struct policy *p)
{
	const char *own = s->fleet->config.own_project_id;

	return own && strcmp(s->project_id, own) == 0 ? policy_opens_tls(p) : policy_needs_trust(p);
}

bool network_needs_trust(const struct sandbox *s)
{
	return needs_trust(s, network_policy(s));
}

bool network_is_trusted(const struct sandbox *s)
{
	return s->network && s->network->is_trusted && needs_trust(s, wanted(s->network));
}

bool network_is_settled(const struct sandbox *s)
{
	return !s->network || s->network->applied == s->network->version;
}

static void tell(struct network *n, const struct err *err)
{
	struct list told = LIST_INIT(told);

	list_for_each (&n->waiters, struct network_waiter, w, link) {
		list_remove(&w->link);
		list_append(&told, &w->link);
	}
	list_for_each (&told, struct network_waiter, w, link) {
		w->fn(err ? NULL : n->sandbox, err, w->arg);
		free(w);
	}
}

static void fail(struct network *n, const struct err *err)
{
	log_warn("sandbox.network_failed", "id=%s error='%s'", n->sandbox->id, err->message);
	loop_timer_set_in(n->again, AGAIN_US);
	tell(n, err);
}

static void fail_wall(struct network *n, int error)
{
	struct err err;

	n->is_open = false; /* not known: what there is gets replaced */
	n->applied = 0;
	(void)err_set(&err, ERR_UNAVAILABLE, -error, "the network wall does not answer");
	fail(n, &err);
}

static void forget_trust(struct network *n)
{
	ca_trust_cancel(take_ptr(n->trust));
	free(take_ptr(n->certificate));
	n->is_trusted = false;
}

static void on_trusted(const struct err *err, void *arg)
{
	struct network *n = arg;

	n->trust = NULL;
	n->is_trusted = !err;
	if (err)
		log_warn("sandbox.not_trusted", "id=%s error='%s'", n->sandbox->id, err->message);
	network_step(n);
}

static bool is_paused(const struct sandbox *s)
{
	return s->state == SANDBOX_PAUSING || s->state == SANDBOX_PAUSED;
}

static void begin_trust(struct network *n)
{
	if (n->certificate && !n->is_trusted && !n->trust && !is_paused(n->sandbox))
		n->trust = ca_trust_install(n->sandbox, n->certificate, on_trusted, n);
}

/* The issuer may be another than under the last policy. */
static void take_certificate(struct network *n, const char *certificate)
{
	const bool is_own = policy_opens_tls(wanted(n));

	if (!certificate[0] || !needs_trust(n->sandbox, wanted(n)) ||
	    (n->certificate && n->is_own == is_own))
		return;
	forget_trust(n);
	n->certificate = xstrdup(certificate);
	n->is_own = is_own;
}

static void on_told(int error, const char *certificate, void *arg)
{
	struct network *n = arg;

	n->call = 0;
	if (error == -ENOENT && n->is_open) { /* this wall is another, and has no such door */
		n->is_open = false;
		network_step(n);
		return;
	}
	if (error < 0) {
		fail_wall(n, error);
		return;
	}
	n->is_open = true;
	n->applied = n->sending;
	take_certificate(n, certificate);
	begin_trust(n);
	network_step(n);
}

static void on_door(const struct msg_reply *reply, int *fds, void *arg)
{
	struct network *n = arg;
	auto_call(wipe) struct buf text = BUF_INIT(WALL_TEXT_MAX);

	n->ask = 0;
	if (reply->err.code != ERR_NONE) {
		fail(n, &reply->err);
		return;
	}
	fill_policy(n, &text);
	n->sending = n->version;
	n->call = wall_client_open(n->sandbox->fleet->config.wall, n->sandbox->id, buf_str(&text),
	                           needs_trust(n->sandbox, wanted(n)), fds, on_told, n);
}

static void on_door_closed(const struct msg_reply *reply, void *arg)
{
	struct network *n = arg;

	n->ask = 0;
	if (reply->err.code != ERR_NONE) {
		fail(n, &reply->err);
		return;
	}
	n->is_open = false;
	n->applied = n->sending;
	network_step(n);
}

static void on_wall_closed(int error, const char *certificate, void *arg)
{
	struct network *n = arg;
	struct msg_request req = {.op = MSG_DOOR_CLOSE};
	struct err err;

	(void)error; /* a wall that is gone has no door */
	(void)certificate;
	n->call = 0;
	memcpy(req.id, n->sandbox->id, sizeof(req.id));
	if (broker_client_ask(n->sandbox->fleet->broker, &req, on_door_closed, n, &n->ask, &err) <
	    0)
		fail(n, &err);
}

static bool is_busy(const struct network *n)
{
	return n->ask != 0 || n->call != 0;
}

static int ask_for_door(struct network *n, struct err *err)
{
	struct msg_request req = {.op = MSG_DOOR};

	memcpy(req.id, n->sandbox->id, sizeof(req.id));
	return broker_client_ask_fds(n->sandbox->fleet->broker, NULL, &req, on_door, n, &n->ask,
	                             err);
}

static void network_step(struct network *n)
{
	struct sandbox *s = n->sandbox;
	struct wall_client *wall = s->fleet->config.wall;
	auto_call(wipe) struct buf text = BUF_INIT(WALL_TEXT_MAX);
	struct err err;

	if (is_busy(n) || !sandbox_is_alive(s) || s->state == SANDBOX_STOPPING)
		return;
	if (pause_is_on_disk(s)) { /* nothing runs: it is in force before anything does again */
		tell(n, NULL);
		return;
	}
	if (n->applied == n->version) {
		if (!n->trust)
			tell(n, NULL);
		return;
	}
	loop_timer_set(n->again, UINT64_MAX);
	n->sending = n->version;
	if (!wall) {
		(void)err_set(&err, ERR_UNSUPPORTED, 0, "this daemon has no network wall");
		fail(n, &err);
	} else if (!wants_door(n)) {
		n->call = wall_client_close(wall, s->id, on_wall_closed, n);
	} else if (n->is_open) {
		fill_policy(n, &text);
		n->call = wall_client_set_policy(wall, s->id, buf_str(&text),
		                                 needs_trust(s, wanted(n)), on_told, n);
	} else if (ask_for_door(n, &err) < 0) {
		fail(n, &err);
	}
}

/* Without a wall (in tests of other things) only a policy that needs none can be in force. */
static bool has_nothing_to_do(const struct network *n)
{
	return !n->is_open && n->applied == 0 && !wants_door(n) && !is_busy(n);
}

void network_apply(struct sandbox *s, network_fn done, void *arg)
{
	struct network *n = network_of(s);
	struct network_waiter *w;

	if (has_nothing_to_do(n))
		n->applied = n->version;
	if (done) {
		w = xnew0(struct network_waiter);
		*w = (struct network_waiter){.fn = done, .arg = arg};
		list_append(&n->waiters, &w->link);
		loop_timer_set_in(n->again, 0); /* from the loop */
		return;
	}
	network_step(n);
}

int network_change(struct sandbox *s, struct policy *policy, network_fn done, void *arg,
                   struct err *err)
{
	struct network *n = network_of(s);
	struct policy *old = n->policy;
	int r = 0;

	if (!sandbox_is_alive(s) || s->state == SANDBOX_STOPPING)
		r = err_set(err, ERR_GONE, 0, "sandbox %s has ended", s->id);
	if (r == 0)
		r = secret_check_policy(s->fleet, s->project_id, policy, "policy", err);
	if (r == 0) {
		n->policy = policy; /* the row is written from it */
		r = s->fleet->lifecycle->save(s, err);
	}
	if (r < 0) {
		n->policy = old;
		policy_free(policy);
		return r;
	}
	policy_free(old);
	emit_changed(s, "network");
	n->version++;
	n->n_learnt = 0;
	network_apply(s, done, arg);
	return 0;
}

void network_on_secret(struct fleet *fleet, const char *project_id, const char *name)
{
	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		if (!s->network || strcmp(s->project_id, project_id) != 0 ||
		    !secret_is_in_policy(wanted(s->network), name))
			continue;
		s->network->version++;
		network_step(s->network);
	}
}

size_t network_count_users(const struct fleet *fleet, const char *project_id, const char *name)
{
	size_t n = 0;

	list_for_each (&fleet->all, const struct sandbox, s, link_all)
		n += s->network && strcmp(s->project_id, project_id) == 0 && sandbox_is_alive(s) &&
		     secret_is_in_policy(s->network->policy, name);
	return n;
}

static void on_first_door(struct sandbox *s, const struct err *err, void *arg)
{
	struct sandbox *self = arg;

	if (self->state != SANDBOX_CREATING)
		return;
	if (s)
		s->fleet->lifecycle->next(s);
	else
		self->fleet->lifecycle->fail_create(self, err);
}

static void on_dropped(const struct err *err, void *arg)
{
	struct network *n = arg;

	n->trust = NULL;
	if (err)
		log_warn("sandbox.trusts_old_ca", "id=%s error='%s'", n->sandbox->id, err->message);
	network_begin(n->sandbox);
}

bool network_has_trust(const struct sandbox *s)
{
	const struct network *n = s->network;

	return s->drops_trust || (n && (n->is_trusted || needs_trust(s, wanted(n))));
}

void network_begin(struct sandbox *s)
{
	if (s->drops_trust) { /* whom its source trusts; one of its own takes that one's place */
		s->drops_trust = false;
		if (!needs_trust(s, wanted(network_of(s)))) {
			s->network->trust = ca_trust_install(s, "", on_dropped, s->network);
			return;
		}
	}
	if (s->network && (s->network->is_open || wants_door(s->network))) {
		network_apply(s, on_first_door, s);
		return;
	}
	if (s->network)
		s->network->applied = s->network->version;
	s->fleet->lifecycle->next(s);
}

void network_ahead(struct sandbox *s, network_fn done, void *arg)
{
	auto_json json_t *nothing = json_pack("{s[{s{}ss}]}", "rules", "match", "action", "deny");
	struct policy *policy;

	if (network_read(nothing, "network", &policy, NULL) < 0)
		abort(); /* it is a constant */
	network_set(s, policy);
	network_apply(s, done, arg);
}

static void on_last_told(int error, const char *certificate, void *arg)
{
	struct network *n = arg;

	(void)error;
	(void)certificate;
	n->last_call = 0;
	loop_timer_set(n->again, UINT64_MAX);
	go_over(n);
}

void network_go_on(struct sandbox *s)
{
	if (s->network)
		begin_trust(s->network);
}

void network_end(struct sandbox *s)
{
	struct network *n = s->network;
	struct err err;

	if (!n)
		return;
	broker_client_cancel(s->fleet->broker, n->ask);
	if (s->fleet->config.wall) {
		wall_client_cancel(s->fleet->config.wall, n->call);
		if (n->is_open || n->call)
			n->last_call =
				wall_client_close(s->fleet->config.wall, s->id, on_last_told, n);
	}
	forget_trust(n);
	n->ask = n->call = 0;
	n->is_open = false;
	n->applied = 0;
	n->over = NULL; /* a pause that is ended instead must not go on */
	loop_timer_set(n->again, UINT64_MAX);
	(void)err_set(&err, ERR_GONE, 0, "sandbox %s has ended", s->id);
	tell(n, &err);
}

void network_when_over(struct sandbox *s, void (*fn)(struct sandbox *s))
{
	struct network *n = s->network;

	if (!n || n->last_call == 0) {
		fn(s);
		return;
	}
	n->over = fn;
	loop_timer_set_in(n->again, LAST_WORD_US);
}

static void cancel_calls(struct network *n, struct wall_client *wall)
{
	wall_client_cancel(wall, n->call);
	wall_client_cancel(wall, n->last_call);
}

void network_free(struct sandbox *s)
{
	struct network *n = take_ptr(s->network);

	if (!n)
		return;
	broker_client_cancel(s->fleet->broker, n->ask);
	if (s->fleet->config.wall)
		cancel_calls(n, s->fleet->config.wall);
	forget_trust(n);
	list_for_each (&n->waiters, struct network_waiter, w, link)
		free(w);
	loop_timer_free(n->again);
	policy_free(n->policy);
	policy_free(n->lent);
	free(n);
}

void network_put_row(const struct sandbox *s, struct json_writer *w, const char *name)
{
	if (s->network)
		policy_write(s->network->policy, w, name, SECRETS_SHOWN);
}

const char *network_name(const struct sandbox *s)
{
	const struct policy *p = network_policy(s);

	if (!policy_opens(p))
		return "deny-all";
	return policy_allows_all(p) ? "allow-all" : "rules";
}

bool network_may_learn(struct sandbox *s)
{
	return s->network && s->network->n_learnt++ < LEARNT_MAX;
}

/* The wall's word is not taken as it is. */
static void note_denied(struct network *n, const char *text)
{
	struct host host;
	const char *why;

	n->denied[0] = '\0';
	if (host_parse(text, strlen(text), &host, &why) == 0)
		host_format(&host, n->denied);
}

const char *network_denied(const struct sandbox *s)
{
	return s->network && s->network->denied[0] ? s->network->denied : NULL;
}

static void on_decision(const struct wall_decision *d, void *arg)
{
	struct fleet *fleet = arg;
	struct sandbox *s = fleet_find_id(fleet, d->head.id);

	if (!s)
		return;
	network_note_decision(s, d);
	if (s->network && d->verdict == WALL_DENIED)
		note_denied(s->network, d->name[0] ? d->name : d->address);
}

static void on_bytes(const char *id, uint64_t in_bytes, uint64_t out_bytes, void *arg)
{
	struct sandbox *s = fleet_find_id(arg, id);

	if (s)
		sandbox_count_network(s, MIN(in_bytes, BYTES_MAX), MIN(out_bytes, BYTES_MAX));
}

/* The listeners of all doors vanished with the old wall. */
static void on_attached(void *arg)
{
	struct fleet *fleet = arg;

	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		if (!s->network || !s->network->is_open)
			continue;
		s->network->is_open = false;
		s->network->applied = 0;
		network_step(s->network);
	}
}

const struct wall_ops network_wall_ops = {
	.on_decision = on_decision,
	.on_bytes = on_bytes,
	.on_attached = on_attached,
};
