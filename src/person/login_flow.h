// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * How a person logs in at the provider, by a browser (authorization code with PKCE) or by the
 * command line (device flow, RFC 8628). Nothing is kept here between two calls: what must be
 * remembered is sealed and given to the client, under a key of this process. So a stranger who
 * begins logins without end fills no table, and a login that is under way when the daemon starts
 * anew is begun again.
 *
 *	browser:	start --> provider --> finish (state, PKCE, nonce, iss) --> session
 *	command line:	device --> somebody confirms at the provider, poll … --> session
 */
#include "oidc/provider.h"
#include "person/person_session.h"

struct login_flow;

struct login_flow_config { /* borrowed */
	struct provider *provider;
	struct person_sessions *sessions;
	const char *name;   /* of the provider, for people */
	const char *scopes; /* with blanks between them */
};

struct login_flow *login_flow_new(const struct login_flow_config *config);
void login_flow_free(struct login_flow *flow); /* after the provider; NULL is fine */
const char *login_flow_name(const struct login_flow *flow);
struct person_sessions *login_flow_sessions(const struct login_flow *flow);
struct provider *login_flow_provider(const struct login_flow *flow);

#define LOGIN_FLOW_US (600 * SECOND_US) /* that a browser has for all of it */

struct login_step { /* what comes of a call; borrowed until its fn returns */
	enum login_problem problem;
	const char *detail;       /* for the log */
	const char *url, *sealed; /* of a start: where to go, and the cookie's value */
	const char *token;        /* of a new session */
	struct person_session *session;
	struct {                                                  /* of a device login */
		const char *sealed, *user_code, *url, *whole_url; /* whole_url or NULL */
		uint64_t interval_s, expires_us;
	} device;
	bool is_slow_down; /* with LOGIN_PENDING */
	size_t n_ended;    /* by a logout token */
};
typedef void (*login_fn)(const struct login_step *step, void *arg);

/* Each calls fn once, later. */
void login_flow_start(struct login_flow *flow, const char *redirect_url, login_fn fn, void *arg);

struct login_return {       /* what a browser brings back; NULL: absent */
	const char *sealed; /* the cookie */
	const char *state, *code, *iss, *error;
	const char *redirect_url;
};
void login_flow_finish(struct login_flow *flow, const struct login_return *back, login_fn fn,
                       void *arg);
void login_flow_device(struct login_flow *flow, login_fn fn, void *arg);
void login_flow_poll(struct login_flow *flow, const char *sealed, login_fn fn, void *arg);
/* The provider says by itself that a session is over. */
void login_flow_end(struct login_flow *flow, const char *logout_token, login_fn fn, void *arg);
/* Ends the session here, and its refresh token at the provider. */
void login_flow_leave(struct login_flow *flow, struct person_session *s);
