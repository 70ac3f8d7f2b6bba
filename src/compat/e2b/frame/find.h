// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Which sandbox a request is about, by E2B's names for it. */
#include "compat/e2b/e2b.h"

#define E2B_ID_SIZE (ID_RANDOM_LEN + 1)

/* Ours without its kind. */
void e2b_id(const struct sandbox *s, char ret[E2B_ID_SIZE]);
/* "k3v9…", and what old clients put behind it ("-CLIENT"), is "sb_k3v9…"; ret is "" for what is no
 * id. */
void e2b_native_id(const char *id, char ret[ID_SIZE]);
/* One that has ended is gone for E2B's clients, whatever we remember of it. */
bool e2b_is_there(const struct sandbox *s);
/* Whether the caller's key may change what is inside, and so be told a sandbox's token. */
bool e2b_may_enter(const struct http_req *req);
/* Of the path's {id}, among those of the caller's project that live or rest. A caller who
 * may enter has a token from then on, and its network is remembered (notes.h). */
must_check int e2b_find(const struct http_req *req, struct sandbox **ret, struct err *err);
