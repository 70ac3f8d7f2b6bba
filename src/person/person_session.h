// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Sessions of people. A token of 256 random bits stands for a person who has logged in at the
 * provider; the store keeps its hash. What the person may do is not the session's: it is looked up
 * at every call, in the keys that the person has (tenant/person_key.h).
 *
 *	begin --> (renewed …) --> end: logged out, refused by the provider, or too old
 *
 * A session lasts as long as the id token says. With a refresh token it lasts for SESSION_GRACE_US
 * after the provider last said yes. It never lasts longer than the settings allow. All of this is
 * on the loop's thread.
 */
#include "base/units.h"
#include "event/event.h"
#include "oidc/id_token.h"
#include "person/role_map.h"
#include "secret/sealed_text.h"
#include "tenant/login.h"

#define SESSION_GRACE_US   (3600 * SECOND_US) /* that a silent provider is borne with */
#define SESSION_TOKEN_SIZE (LOGIN_TOKEN_SIZE + 4)

enum person_session_kind {
	SESSION_BROWSER = 1, /* its token is in a cookie and counts nowhere else */
	SESSION_CLIENT = 2,  /* its token is sent as a key is */
};

struct person_sessions;
struct person_session;

struct person_sessions_config { /* all is borrowed */
	struct store *store;
	struct keyring *ring;
	struct event_log *events;
	const struct master_keys *keys;
	const struct role_map *roles;
	const char *issuer, *roles_claim;
	uint64_t most_us; /* the longest that a session lasts */
};

must_check int person_sessions_open(const struct person_sessions_config *config,
                                    struct person_sessions **ret, struct err *err);
void person_sessions_free(struct person_sessions *ss); /* NULL is fine */

struct person_proof { /* what the provider has said; borrowed */
	const json_t *claims;
	struct id_token token;
	const char *refresh; /* NULL: there is none, or it stays */
};

/* Also sets the person's roles. Gives the token, which is kept nowhere. */
enum login_problem person_session_begin(struct person_sessions *ss,
                                        const struct person_proof *proof,
                                        enum person_session_kind kind,
                                        char ret_token[SESSION_TOKEN_SIZE],
                                        struct person_session **ret, struct err *err);
/* The provider has said yes again. claims may be NULL: then only the time moves. If the person has
 * no role any more, the session ends. */
void person_session_renew(struct person_sessions *ss, struct person_session *s,
                          const struct person_proof *proof);
/* ret_refresh is for sealed_text_wipe(); NULL: it has none. */
void person_session_refresh_token(const struct person_sessions *ss, const struct person_session *s,
                                  char **ret_refresh);
void person_session_end(struct person_sessions *ss, struct person_session *s, const char *why);
/* Of a person, or of one session at the provider; each may be NULL. Returns how many. */
size_t person_sessions_end_of(struct person_sessions *ss, const char *subject, const char *sid,
                              const char *why);

/* NULL: there is no such session, or it is over. */
struct person_session *person_session_find(struct person_sessions *ss,
                                           enum person_session_kind kind, const char *token);
/* The person's key in the project (its id or name), or in the chosen one for NULL; NULL: none. */
const struct key *person_session_key(const struct person_sessions *ss,
                                     const struct person_session *s, const char *project);
/* Takes another project from now on. */
must_check int person_session_choose(struct person_sessions *ss, struct person_session *s,
                                     const char *project, struct err *err);
uint64_t person_session_expires_us(const struct person_session *s);
const char *person_session_person_id(const struct person_session *s);
bool person_session_is_of(const struct person_sessions *ss, const struct person_session *s,
                          const char *subject);

/* Ends what is over. Calls fn, up to max times, for sessions with a refresh token for which it was
 * not called within that time. */
void person_sessions_sweep(struct person_sessions *ss, uint64_t every_us, size_t max,
                           void (*fn)(struct person_session *s, void *arg), void *arg);
/* Whether it still is one: for who kept a pointer meanwhile. number is person_session_number()'s.
 */
struct person_session *person_session_by_number(struct person_sessions *ss, uint64_t number);
uint64_t person_session_number(const struct person_session *s);
