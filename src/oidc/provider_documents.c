// SPDX-License-Identifier: Apache-2.0
#include "oidc/provider_documents.h"

#include "net/match/url.h"

#include <string.h>

#define VALUES_MAX 4096

static int refuse(struct err *err, const char *what, const char *why)
{
	return err_set(err, ERR_UNAVAILABLE, EBADMSG, "the provider's metadata: %s %s", what, why);
}

static int read_url(const json_t *object, const char *name, bool is_needed, bool is_secure,
                    char **ret, struct err *err)
{
	const json_t *value = json_object_get(object, name);
	const char *text = json_string_value(value), *why = NULL;
	struct url url;

	if (!value)
		return is_needed ? refuse(err, name, "is missing") : 0;
	if (!text || strlen(text) > PROVIDER_URL_MAX ||
	    url_parse(text, strlen(text), &url, &why) < 0 ||
	    (url.scheme != URL_HTTP && url.scheme != URL_HTTPS))
		return refuse(err, name, "is no URL of http or https");
	if (is_secure && url.scheme != URL_HTTPS)
		return refuse(err, name, "is not https, as the issuer is");
	*ret = xstrdup(text);
	return 0;
}

static bool names(const json_t *list, const char *word)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (json_is_string(item) && strcmp(json_string_value(item), word) == 0)
			return true;
	}
	return false;
}

static int read_all(const json_t *object, const char *issuer, struct provider_metadata *ret,
                    struct err *err)
{
	const char *named = json_string_value(json_object_get(object, "issuer"));
	const json_t *methods = json_object_get(object, "token_endpoint_auth_methods_supported");
	const json_t *challenges = json_object_get(object, "code_challenge_methods_supported");
	const bool is_secure = strncmp(issuer, "https:", 6) == 0;
	int r = 0;
	const struct {
		const char *name;
		bool is_needed;
		char **ret;
	} urls[] = {
		{"authorization_endpoint", true, &ret->authorization_endpoint},
		{"token_endpoint", true, &ret->token_endpoint},
		{"jwks_uri", true, &ret->jwks_uri},
		{"device_authorization_endpoint", false, &ret->device_endpoint},
		{"revocation_endpoint", false, &ret->revocation_endpoint},
	};

	if (!named || strcmp(named, issuer) != 0)
		return refuse(err, "issuer", "is not login.issuer, letter by letter");
	if (challenges && !names(challenges, "S256"))
		return refuse(err, "code_challenge_methods_supported", "lacks S256");
	for (size_t i = 0; i < ARRAY_SIZE(urls) && r == 0; i++)
		r = read_url(object, urls[i].name, urls[i].is_needed, is_secure, urls[i].ret, err);
	ret->has_iss = json_is_true(
		json_object_get(object, "authorization_response_iss_parameter_supported"));
	ret->wants_secret_in_body = methods && !names(methods, "client_secret_basic");
	return r;
}

int provider_metadata_parse(const char *text, size_t len, const char *issuer,
                            struct provider_metadata *ret, struct err *err)
{
	struct provider_metadata found = {0};
	auto_json json_t *object = NULL;
	int r = json_parse_up_to(text, len, VALUES_MAX, &object, err);

	if (r < 0)
		return err_prefix(err, "the provider's metadata");
	r = read_all(object, issuer, &found, err);
	if (r < 0)
		provider_metadata_done(&found);
	else
		*ret = found;
	return r;
}

void provider_metadata_done(struct provider_metadata *m)
{
	free(m->authorization_endpoint);
	free(m->token_endpoint);
	free(m->jwks_uri);
	free(m->device_endpoint);
	free(m->revocation_endpoint);
	*m = (struct provider_metadata){0};
}
