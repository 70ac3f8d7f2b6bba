// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Explains to a person what a policy decides about a URL, which rule decides, and how strong the
 * check is.
 */
#include "net/policy/judge.h"

enum explain_strength {
	STRENGTH_REFUSED, /* nothing gets through */
	STRENGTH_ADDRESS, /* the address decides, whatever name the server has */
	STRENGTH_NAME, /* the name in the client's TLS; the wall dials that name, and does not see
	                  what is inside the encryption */
	STRENGTH_HOST, /* each request's Host, dialled by that name; nobody proves to be it */
	STRENGTH_VERIFIED, /* each request is seen, and the server proves its name to the wall */
	STRENGTH_COUNT,
};

struct explanation {
	/* JUDGE_NEED_ADDRESS: allowed, if the name leads to addresses that are not closed. */
	struct judge_decision decision;
	enum explain_strength strength;
	bool is_allowed;
};

const char *explain_strength_name(enum explain_strength strength); /* "verified" */
/* Explains a request with this method and no header fields. url is "https://host/path" or the
 * like. */
must_check int explain(const struct policy *p, const struct range_site *site, const char *url,
                       const char *method, struct explanation *ret, struct err *err);
