// SPDX-License-Identifier: Apache-2.0
/*
 * Callers without a good key.
 *
 * A secret has 160 random bits: nobody guesses one. Counting failures keeps a guesser from costing
 * a hash for each try, and tells an honest client with a wrong key to slow down. A good key is
 * always let in: nobody can lock out others by failing in their name.
 */
#include "api/frame/refuse.h"

#include "base/log.h"
#include "base/units.h"

#define FAILURES_MAX       20
#define FAILURES_WINDOW_US (60 * SECOND_US)

/* Where it calls from: a user of this host, or a network. The top bit keeps the two apart. */
static uint64_t peer_of(const struct http_req *req)
{
	return http_peer_is_unix(req) ? BIT64(63) | http_peer_uid(req) : http_peer_network(req);
}

/* The peer's row, or else the one whose window began first. */
static struct login_peer *login_row(struct api *api, uint64_t peer)
{
	struct login_peer *oldest = &api->login_peers[0];

	for (size_t i = 0; i < LOGIN_PEERS_MAX; i++) {
		struct login_peer *row = &api->login_peers[i];

		if (row->peer == peer)
			return row;
		if (row->since_us < oldest->since_us)
			oldest = row;
	}
	*oldest = (struct login_peer){.peer = peer};
	return oldest;
}

/* Counts one more; true if it is too many. */
static bool count_failure(struct api *api, const struct http_req *req)
{
	struct login_peer *row = login_row(api, peer_of(req));
	uint64_t now_us = loop_now_us(api->loop);

	if (row->failures == 0 || now_us - row->since_us > FAILURES_WINDOW_US) {
		row->since_us = now_us;
		row->failures = 0;
	}
	return ++row->failures > FAILURES_MAX;
}

static void tell_refused(struct http_req *req, const char *why)
{
	const struct api *api = http_app_arg(req);
	struct event e;
	struct json_writer *w;

	log_debug("auth.refused", "request=%s why='%s'", http_request_id(req), why);
	event_log_set_origin(api->events,
	                     &(struct event_origin){.request_id = http_request_id(req),
	                                            .client = http_peer(req),
	                                            .agent = http_header(req, "User-Agent")});
	w = event_begin(&e, api->events, EVENT_KEY_REFUSED, NULL, NULL);
	json_put_str(w, "why", why);
	json_put_bool(w, "unix_socket", http_peer_is_unix(req));
	event_end(&e);
	event_log_set_origin(api->events, &(struct event_origin){0});
}

int api_refuse(struct http_req *req, struct err *err, const char *why)
{
	if (count_failure(http_app_arg(req), req)) {
		http_reply_header(req, "Retry-After", "60");
		return err_set(err, ERR_LIMIT, 0, "too many calls without a good key");
	}
	tell_refused(req, why);
	(void)err_set(err, ERR_UNAUTHENTICATED, 0, "%s", why);
	return err_hint(err, "send a key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'");
}
