// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What can be wrong with a login at a provider: a closed list. Each has a word, which goes into an
 * address or a log, and a sentence for the person. So nothing that a provider or a stranger wrote
 * is shown as ours.
 */
#include "base/err.h"

enum login_problem {
	LOGIN_FINE,
	LOGIN_NOT_SET_UP,
	LOGIN_UNREACHABLE,
	LOGIN_BAD_ANSWER,
	LOGIN_BUSY,
	LOGIN_DENIED,
	LOGIN_STATE,
	LOGIN_ISSUER,
	LOGIN_AUDIENCE,
	LOGIN_EXPIRED,
	LOGIN_CLOCK,
	LOGIN_NONCE,
	LOGIN_SIGNATURE,
	LOGIN_NO_ROLE,
	LOGIN_TOO_LATE,
	LOGIN_PENDING, /* of the device flow: nobody has answered there yet */
	LOGIN_PROBLEM_COUNT
};

const char *login_problem_word(enum login_problem problem);    /* "clock" */
const char *login_problem_message(enum login_problem problem); /* a sentence */
/* LOGIN_FINE: there is no such word. */
enum login_problem login_problem_parse(const char *word);
/* As an error of the API. Gives < 0. */
int login_problem_set(enum login_problem problem, struct err *err);
