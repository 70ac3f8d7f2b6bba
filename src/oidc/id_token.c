// SPDX-License-Identifier: Apache-2.0
#include "oidc/id_token.h"

#include <openssl/crypto.h>
#include <string.h>

#define LOGOUT_EVENT   "http://schemas.openid.net/event/backchannel-logout"
#define LOGOUT_AGE_S   300 /* how long after its making a logout token is taken */
#define TIME_MAX       UINT64_C(253402300799) /* the year 9999 */
#define AUDIENCES_MAX  16
#define TEXT_BYTES_MAX 255

static const char *text_of(const json_t *claims, const char *name)
{
	return json_string_value(json_object_get(claims, name));
}

/* A NumericDate, which may have a fraction. */
static bool read_time(const json_t *claims, const char *name, uint64_t *ret)
{
	const json_t *value = json_object_get(claims, name);
	double seconds = json_number_value(value);

	if (!json_is_number(value) || !(seconds >= 0) || seconds > (double)TIME_MAX)
		return false;
	*ret = (uint64_t)seconds;
	return true;
}

static bool is_in(const json_t *list, const char *text)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (json_is_string(item) && strcmp(json_string_value(item), text) == 0)
			return true;
	}
	return false;
}

/* One of several audiences must be the one that the token was given to, and that must be us. */
static bool is_for(const json_t *claims, const char *client_id)
{
	const json_t *audience = json_object_get(claims, "aud"),
		     *party = json_object_get(claims, "azp");
	const bool is_one = json_is_string(audience) || json_array_size(audience) == 1;

	if (json_is_string(audience)
	            ? strcmp(json_string_value(audience), client_id) != 0
	            : json_array_size(audience) > AUDIENCES_MAX || !is_in(audience, client_id))
		return false;
	if (!party)
		return is_one;
	return json_is_string(party) && strcmp(json_string_value(party), client_id) == 0;
}

/* Printable ASCII, so that it can be shown and logged as it is. */
static bool is_plain(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > TEXT_BYTES_MAX)
		return false;
	for (const char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			return false;
	return true;
}

static bool is_nonce(const json_t *claims, const char *nonce)
{
	const char *given = text_of(claims, "nonce");

	return given && strlen(given) == strlen(nonce) &&
	       CRYPTO_memcmp(given, nonce, strlen(nonce)) == 0;
}

static enum login_problem check_times(const json_t *claims, uint64_t now_s, uint64_t *ret_issued)
{
	uint64_t not_before = 0;

	if (!read_time(claims, "iat", ret_issued) ||
	    (json_object_get(claims, "nbf") && !read_time(claims, "nbf", &not_before)))
		return LOGIN_BAD_ANSWER;
	if (*ret_issued > now_s + ID_TOKEN_SKEW_S || not_before > now_s + ID_TOKEN_SKEW_S)
		return LOGIN_CLOCK;
	return LOGIN_FINE;
}

static enum login_problem check_common(const json_t *claims, const struct id_token_rules *rules,
                                       uint64_t *ret_issued)
{
	const char *issuer = text_of(claims, "iss");

	if (!issuer || strcmp(issuer, rules->issuer) != 0)
		return LOGIN_ISSUER;
	if (!is_for(claims, rules->client_id))
		return LOGIN_AUDIENCE;
	return check_times(claims, rules->now_s, ret_issued);
}

enum login_problem id_token_check(const json_t *claims, const char *type,
                                  const struct id_token_rules *rules, struct id_token *ret)
{
	struct id_token token = {.subject = text_of(claims, "sub"), .sid = text_of(claims, "sid")};
	uint64_t issued;
	enum login_problem problem = check_common(claims, rules, &issued);

	if (problem != LOGIN_FINE)
		return problem;
	/* Another kind of token of the same provider, which has the same claims. */
	if ((type[0] && strcmp(type, "jwt") != 0) || json_object_get(claims, "events"))
		return LOGIN_BAD_ANSWER;
	if (!token.subject || !is_plain(token.subject) || (token.sid && !is_plain(token.sid)) ||
	    !read_time(claims, "exp", &token.expires_s))
		return LOGIN_BAD_ANSWER;
	if (rules->now_s >= token.expires_s + ID_TOKEN_SKEW_S)
		return LOGIN_EXPIRED;
	if (rules->nonce && !is_nonce(claims, rules->nonce))
		return LOGIN_NONCE;
	*ret = token;
	return LOGIN_FINE;
}

enum login_problem logout_token_check(const json_t *claims, const char *type,
                                      const struct id_token_rules *rules, struct id_token *ret)
{
	struct id_token token = {.subject = text_of(claims, "sub"), .sid = text_of(claims, "sid")};
	uint64_t issued;
	enum login_problem problem = check_common(claims, rules, &issued);

	if (problem != LOGIN_FINE)
		return problem;
	if (type[0] && strcmp(type, "logout+jwt") != 0 && strcmp(type, "jwt") != 0)
		return LOGIN_BAD_ANSWER;
	if (!json_is_object(json_object_get(json_object_get(claims, "events"), LOGOUT_EVENT)) ||
	    json_object_get(claims, "nonce") || (!token.subject && !token.sid))
		return LOGIN_BAD_ANSWER;
	if (rules->now_s > issued + LOGOUT_AGE_S)
		return LOGIN_EXPIRED;
	*ret = token;
	return LOGIN_FINE;
}
