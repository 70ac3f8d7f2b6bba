// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Who is calling by a cookie, or by the token of a person's session, instead of a key. */
#include "api/api.h"

#define LOGOUT_BODY_MAX 65536

/* The key that the request's login stands for, or NULL: also for one that may not use it. secret:
 * what was sent as a key and is none; NULL: nothing was, so the cookie counts. */
const struct key *login_of(const struct http_req *req, const char *secret);
/* The session of a person, likewise. */
struct person_session *person_session_of(const struct http_req *req);
/* Who is logged in, as the answer of GET /v1/login. */
void login_put_who(struct json_writer *w, const struct http_req *req, const struct key *key,
                   const struct person_session *session, uint64_t expires_us);

/* Whether nothing but a page's cookie says who is calling: no other node of a cluster knows it. May
 * be asked before the caller was looked at. */
bool login_is_by_cookie(const struct http_req *req);
/* The only cookie of that name: 1; 0: there is none, or more than one, or it does not fit. */
int login_cookie_find(const struct http_req *req, const char *name, char *ret, size_t size);
/* same_site: "Strict" or "Lax". Of an empty value, the cookie ends. */
void login_cookie_set(struct http_req *req, const char *name, const char *value, uint64_t seconds,
                      const char *same_site);
const char *login_cookie_name(const struct http_req *req);
