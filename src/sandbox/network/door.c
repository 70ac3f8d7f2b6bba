// SPDX-License-Identifier: Apache-2.0
/*
 * door_step() brings what is in force to what the policy wants, one request at a time:
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
 * in force. The same holds for the way to the signer, where a rule has a key for SSH.
 *
 * A spare may have a door ahead, by a policy that denies everything (network_ahead()). It then
 * trusts the issuer of refusals, and its owner's policy is one message to the wall.
 */
#include "base/log.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/identity_fill.h"
#include "sandbox/network/network_private.h"
#include "sandbox/network/secret_fill.h"
#include "wall/client.h"

#include <assert.h>
#include <string.h>

#define DENY_ALL     "\"deny-all\""
#define AGAIN_US     UINT64_C(1000000)
#define LAST_WORD_US UINT64_C(1000000) /* that an end waits for the wall to count its bytes */

static_assert((int)DOOR_SOCKETS == WALL_SOCKETS, "a door's sockets do not fit the wall's message");

/* Of a text with credentials. */
static void wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_done(b);
}

/* The policy as the wall is told it. network_read() has seen that it fits; if the values of secrets
 * make it too large, nothing may pass. */
static void fill_policy(struct network *n, struct buf *out)
{
	struct sandbox *s = n->sandbox;
	const struct policy *p = network_wanted(n);
	const bool has_tokens = policy_names_audience(p, NULL);
	int r = has_tokens || secret_is_in_policy(p, NULL) ? secret_fill_policy(s, p, out)
	                                                   : network_write(p, out);

	identity_renew_later(n, has_tokens);
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

void door_on_timer(struct loop *loop, void *arg)
{
	struct network *n = arg;

	(void)loop;
	if (!n->over) {
		door_step(n);
		return;
	}
	wall_client_cancel(n->sandbox->fleet->config.wall, n->last_call);
	n->last_call = 0;
	go_over(n); /* without the wall's last word */
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

static void on_told(int error, const char *certificate, void *arg)
{
	struct network *n = arg;

	n->call = 0;
	if (error == -ENOENT && n->is_open) { /* this wall is another, and has no such door */
		n->is_open = false;
		door_step(n);
		return;
	}
	if (error < 0) {
		fail_wall(n, error);
		return;
	}
	n->is_open = true;
	n->applied = n->sending;
	trust_take(n, certificate);
	trust_begin(n);
	signer_begin(n);
	door_step(n);
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
	                           trust_is_needed(n->sandbox, network_wanted(n)), fds, on_told, n);
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
	signer_begin(n);
	door_step(n);
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

bool door_is_busy(const struct network *n)
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

void door_step(struct network *n)
{
	struct sandbox *s = n->sandbox;
	struct wall_client *wall = s->fleet->config.wall;
	auto_call(wipe) struct buf text = BUF_INIT(WALL_TEXT_MAX);
	struct err err;

	if (door_is_busy(n) || !sandbox_is_alive(s) || s->state == SANDBOX_STOPPING)
		return;
	if (pause_is_on_disk(s)) { /* nothing runs: it is in force before anything does again */
		tell(n, NULL);
		return;
	}
	if (n->applied == n->version) {
		if (!n->trust && !n->signer)
			tell(n, NULL);
		return;
	}
	loop_timer_set(n->again, UINT64_MAX);
	n->sending = n->version;
	if (!wall) {
		(void)err_set(&err, ERR_UNSUPPORTED, 0, "this daemon has no network wall");
		fail(n, &err);
	} else if (!network_needs_door(n)) {
		n->call = wall_client_close(wall, s->id, on_wall_closed, n);
	} else if (n->is_open) {
		fill_policy(n, &text);
		n->call = wall_client_set_policy(wall, s->id, buf_str(&text),
		                                 trust_is_needed(s, network_wanted(n)), on_told, n);
	} else if (ask_for_door(n, &err) < 0) {
		fail(n, &err);
	}
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
	trust_forget(n);
	signer_forget(n);
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
