// SPDX-License-Identifier: Apache-2.0
/*
 * The control plane's calls about one sandbox. Times are seconds from now. A connect never shortens
 * a lifetime, and resumes a paused sandbox; setting a timeout may shorten it.
 */
#include "compat/e2b/control/pending_reply.h"
#include "compat/e2b/frame/body.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "base/clock.h"
#include "compat/e2b/control/network.h"
#include "sandbox/network/network.h"

#define CONNECT_SECONDS 300
#define RESUME_SECONDS  15
#define REFRESH_SECONDS 60
#define SECONDS_MAX     (INT64_C(365) * 24 * 3600) /* far from any overflow in us */

int e2b_get_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	struct reply reply;
	int r = e2b_find(req, &s, err);

	if (r < 0)
		return r;
	e2b_put_detail(req, s, reply_begin_bare(&reply));
	return reply_send(&reply, req, 200, err);
}

int e2b_kill_sandbox(struct http_req *req, struct err *err)
{
	struct sandbox *s;
	int r = e2b_find(req, &s, err);

	if (r == 0)
		sandbox_delete(s, END_DELETED, pending_reply_send,
		               pending_reply_new(req, 204, pending_reply_nothing));
	return r;
}

static int read_seconds(const json_t *body, const char *name, int64_t *ret, bool *ret_given,
                        struct err *err)
{
	int r = body_int(body, name, ret, ret_given, err);

	if (r == 0 && *ret > SECONDS_MAX)
		return err_field(err, name, "is more than a year");
	return r;
}

/* A time in the past gives the shortest possible time. */
static uint64_t to_ms(int64_t seconds)
{
	return seconds > 0 ? (uint64_t)seconds * 1000 : 1;
}

static int set_life(struct sandbox *s, uint64_t timeout_ms, struct pending_reply *l,
                    struct err *err)
{
	const struct sandbox_patch patch = {.has_timeout = true, .timeout_ms = timeout_ms};
	int r = sandbox_update(s, &patch, pending_reply_send, l, err);

	return r < 0 ? late_reply_drop(l, r) : r;
}

int e2b_set_timeout(struct http_req *req, struct err *err)
{
	struct sandbox *s = NULL;
	int64_t seconds = 0;
	bool is_given;
	int r = read_seconds(http_json(req), "timeout", &seconds, &is_given, err);

	if (r == 0 && !is_given)
		r = err_field(err, "timeout", "is required");
	if (r == 0)
		r = e2b_find(req, &s, err);
	return r < 0 ? r
	             : set_life(s, to_ms(seconds),
	                        pending_reply_new(req, 204, pending_reply_nothing), err);
}

static bool is_longer(const struct sandbox *s, uint64_t timeout_ms)
{
	struct sandbox_facts f;

	sandbox_facts(s, &f);
	return f.expires_us > 0 && clock_wall_us() + timeout_ms * 1000 > f.expires_us;
}

int e2b_refresh_sandbox(struct http_req *req, struct err *err)
{
	int64_t seconds = REFRESH_SECONDS;
	struct sandbox *s;
	int r = read_seconds(http_json(req), "duration", &seconds, NULL, err);

	if (r == 0)
		r = e2b_find(req, &s, err);
	if (r < 0)
		return r;
	if (is_longer(s, to_ms(seconds)))
		return set_life(s, to_ms(seconds),
		                pending_reply_new(req, 204, pending_reply_nothing), err);
	http_reply(req, 204, NULL, NULL, 0);
	return 0;
}

/* It runs again: its lifetime starts again, with the requested length. */
static void on_resumed(struct sandbox *s, const struct err *err, void *arg)
{
	struct pending_reply *l = arg;
	struct err failure = {0};

	if (!err &&
	    (notes_set(s, "started_us", json_integer((json_int_t)clock_wall_us()), &failure) < 0 ||
	     notes_set(s, "cold", json_false(), &failure) < 0))
		err = &failure;
	pending_reply_send(err ? NULL : s, err, l);
}

/* If it was paused without its memory, or is to resume without it, it starts over its files. */
static void on_life_set(struct sandbox *s, const struct err *err, void *arg)
{
	struct pending_reply *l = arg;
	struct err failure;
	struct notes n;
	int r = 0;

	if (!err) {
		notes_read(s, &n);
		r = n.is_cold || l->is_cold ? sandbox_resume_cold(s, on_resumed, l, &failure)
		                            : sandbox_resume(s, on_resumed, l, &failure);
	}
	if (err || r < 0)
		pending_reply_send(NULL, err ? err : &failure, l);
}

/* A sandbox that was being paused must run again before it can be changed. */
static void on_back(struct sandbox *s, const struct err *err, void *arg)
{
	struct pending_reply *l = arg;
	struct sandbox_patch patch = {.has_timeout = true};
	struct err failure;

	patch.timeout_ms = l->timeout_ms;
	if (err || sandbox_update(s, &patch, on_resumed, l, &failure) < 0)
		pending_reply_send(NULL, err ? err : &failure, l);
}

static int wake(struct http_req *req, struct sandbox *s, uint64_t timeout_ms, struct err *err)
{
	const struct sandbox_patch patch = {.has_timeout = true, .timeout_ms = timeout_ms};
	struct pending_reply *l = pending_reply_new(req, 201, pending_reply_sandbox);
	bool has_memory = true;
	int r = body_bool(http_json(req), "memory", &has_memory, err);

	l->is_cold = !has_memory;
	l->timeout_ms = timeout_ms;
	if (r == 0 && sandbox_state(s) == SANDBOX_PAUSING)
		r = sandbox_resume(s, on_back, l, err);
	else if (r == 0)
		r = sandbox_update(s, &patch, on_life_set, l, err);
	return r < 0 ? late_reply_drop(l, r) : r;
}

/* A sandbox that was made by another API gets a token for its envd. */
static int ensure_token(const struct http_req *req, struct sandbox *s, struct err *err)
{
	const struct api *api = http_app_arg(req);
	char token[KEY_TOKEN_SIZE];
	struct notes n;
	int r;

	notes_read(s, &n);
	if (n.is_ours)
		return 0;
	key_token_make(token);
	r = notes_set(s, "token", json_string(token), err);
	if (r == 0)
		notes_add_token(s, api->keyring, http_user(req));
	return r;
}

int e2b_connect_sandbox(struct http_req *req, struct err *err)
{
	int64_t seconds = CONNECT_SECONDS;
	struct sandbox *s;
	int r = read_seconds(http_json(req), "timeout", &seconds, NULL, err);

	if (r == 0)
		r = e2b_find(req, &s, err);
	if (r < 0)
		return r;
	r = ensure_token(req, s, err);
	if (r < 0)
		return r;
	if (sandbox_state(s) == SANDBOX_PAUSING || sandbox_is_resting(s))
		return wake(req, s, to_ms(seconds), err);
	if (is_longer(s, to_ms(seconds)))
		return set_life(s, to_ms(seconds),
		                pending_reply_new(req, 200, pending_reply_sandbox), err);
	pending_reply_sandbox(req, 200, s);
	return 0;
}

int e2b_resume_sandbox(struct http_req *req, struct err *err)
{
	int64_t seconds = RESUME_SECONDS;
	struct sandbox *s;
	int r = read_seconds(http_json(req), "timeout", &seconds, NULL, err);

	if (r == 0)
		r = e2b_find(req, &s, err);
	if (r < 0)
		return r;
	if (!sandbox_is_resting(s))
		return err_set(err, ERR_CONFLICT, 0, "sandbox is already running");
	return wake(req, s, to_ms(seconds), err);
}

int e2b_pause_sandbox(struct http_req *req, struct err *err)
{
	struct pause_wish wish = {.closes_connections = true};
	bool has_memory = true;
	struct sandbox *s;
	struct pending_reply *l;
	int r = body_bool(http_json(req), "memory", &has_memory, err);

	if (r == 0)
		r = e2b_find(req, &s, err);
	if (r < 0)
		return r;
	if (sandbox_is_resting(s))
		return err_set(err, ERR_CONFLICT, 0, "sandbox is already paused");
	if (!has_memory) {
		wish.place = PAUSE_ON_DISK;
		r = notes_set(s, "cold", json_true(), err);
		if (r < 0)
			return r;
	}
	l = pending_reply_new(req, 204, pending_reply_nothing);
	r = sandbox_pause_as(s, &wish, pending_reply_send, l, err);
	return r < 0 ? late_reply_drop(l, r) : r;
}

int e2b_set_network(struct http_req *req, struct err *err)
{
	auto_json json_t *wanted = NULL;
	const json_t *body = http_json(req);
	struct policy *policy = NULL;
	struct e2b_network network = {.options = body, .has_internet = true};
	struct sandbox *s;
	struct pending_reply *l;
	struct notes notes;
	int r = body_bool(body, "allow_internet_access", &network.has_internet, err);

	if (r == 0)
		r = e2b_find(req, &s, err);
	if (r == 0) {
		notes_read(s, &notes);
		network.tokens = notes.workload_tokens;
		r = e2b_policy(&network, &wanted, err);
	}
	if (r == 0)
		r = network_read(wanted, "network", &policy, err);
	if (r == 0)
		r = notes_set(s, "network", e2b_policy_told(body), err);
	if (r < 0) {
		policy_free(policy);
		return r;
	}
	l = pending_reply_new(req, 204, pending_reply_nothing);
	r = network_change(s, policy, pending_reply_send, l, err);
	return r < 0 ? late_reply_drop(l, r) : r;
}
