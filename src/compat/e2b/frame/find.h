// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Finds the sandbox of a request by E2B's ids. */
#include "compat/e2b/e2b.h"

#define E2B_ID_SIZE (ID_RANDOM_LEN + 1)

/* Our id without its kind. */
void e2b_id(const struct sandbox *s, char ret[E2B_ID_SIZE]);
/* "k3v9…", with or without the "-CLIENT" of old clients, is "sb_k3v9…"; ret is "" if it is not an
 * id. */
void e2b_native_id(const char *id, char ret[ID_SIZE]);
/* For E2B's clients an ended sandbox is gone, even if we still remember it. */
bool e2b_is_there(const struct sandbox *s);
/* Whether the caller's key may change what is inside, and so may have a sandbox's token. */
bool e2b_may_enter(const struct http_req *req);
/* Finds the sandbox of the path's {id} among those of the caller's project that run or are paused.
 * A caller that may enter gets a token, and its network is remembered (notes.h). */
must_check int e2b_find(struct http_req *req, struct sandbox **ret, struct err *err);
