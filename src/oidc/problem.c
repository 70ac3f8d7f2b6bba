// SPDX-License-Identifier: Apache-2.0
#include "oidc/problem.h"

#include <string.h>

/* clang-format off */
static const struct {
	const char *word;
	enum err_code code;
	const char *message, *hint;
} problems[] = {
	[LOGIN_FINE] = {"none", ERR_NONE, "", ""},
	[LOGIN_NOT_SET_UP] = {"not_set_up", ERR_UNSUPPORTED, "this daemon has no login provider",
		"an operator sets one up in the section [login] of the settings; until then, use a key"},
	[LOGIN_UNREACHABLE] = {"unreachable", ERR_UNAVAILABLE, "the login provider cannot be reached",
		"try again; an admin can log in with a key, or by `cloche dashboard` on the host"},
	[LOGIN_BAD_ANSWER] = {"bad_answer", ERR_UNAVAILABLE, "the login provider has answered with something that cannot be used",
		"an operator finds the reason in the daemon's log, at login.failed"},
	[LOGIN_BUSY] = {"busy", ERR_LIMIT, "too many logins are under way", "try again in a moment"},
	[LOGIN_DENIED] = {"denied", ERR_UNAUTHENTICATED, "the login provider has refused this login", "log in again"},
	[LOGIN_STATE] = {"state", ERR_UNAUTHENTICATED, "this login was not begun in this browser, or took longer than ten minutes",
		"begin again at the login page, with cookies allowed"},
	[LOGIN_ISSUER] = {"issuer", ERR_UNAUTHENTICATED, "the answer comes from another provider than the one that was asked",
		"begin again at the login page; if it happens again, login.issuer is not what the provider calls itself"},
	[LOGIN_AUDIENCE] = {"audience", ERR_UNAUTHENTICATED, "the token was made for another application",
		"login.client_id must be the one that the provider has for cloche"},
	[LOGIN_EXPIRED] = {"expired", ERR_UNAUTHENTICATED, "the token had expired when it came",
		"log in again; if it happens again, compare the clocks of this host and of the provider"},
	[LOGIN_CLOCK] = {"clock", ERR_UNAUTHENTICATED, "the token is from the future: the clocks of this host and of the provider differ by more than a minute",
		"an operator sets the clocks, by NTP"},
	[LOGIN_NONCE] = {"nonce", ERR_UNAUTHENTICATED, "the token belongs to another login", "begin again at the login page"},
	[LOGIN_SIGNATURE] = {"signature", ERR_UNAUTHENTICATED, "the token is not signed by a key of the provider",
		"log in again; if it happens again, an operator finds the reason in the daemon's log, at login.failed"},
	[LOGIN_NO_ROLE] = {"no_role", ERR_FORBIDDEN, "the login provider knows you, but gives you no role here",
		"ask an admin to put you into a group that login.roles names"},
	[LOGIN_TOO_LATE] = {"too_late", ERR_UNAUTHENTICATED, "nobody has confirmed this login in time", "begin again with `cloche login`"},
	[LOGIN_PENDING] = {"pending", ERR_CONFLICT, "nobody has confirmed this login yet", "ask again after the interval"},
};
/* clang-format on */

const char *login_problem_word(enum login_problem problem)
{
	return problems[problem].word;
}

const char *login_problem_message(enum login_problem problem)
{
	return problems[problem].message;
}

enum login_problem login_problem_parse(const char *word)
{
	for (size_t i = LOGIN_FINE + 1; i < ARRAY_SIZE(problems); i++)
		if (strcmp(problems[i].word, word) == 0)
			return (enum login_problem)i;
	return LOGIN_FINE;
}

int login_problem_set(enum login_problem problem, struct err *err)
{
	(void)err_set(err, problems[problem].code, 0, "%s", problems[problem].message);
	return err_hint(err, "%s", problems[problem].hint);
}
