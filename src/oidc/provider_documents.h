// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a provider says about itself (OpenID Connect Discovery), read strictly. No I/O. */
#include "base/json/json.h"

#define PROVIDER_URL_MAX 1024

struct provider_metadata {
	char *authorization_endpoint, *token_endpoint, *jwks_uri;
	char *device_endpoint, *revocation_endpoint; /* or NULL */
	bool has_iss;                                /* its answers name it (RFC 9207) */
	bool wants_secret_in_body;                   /* it cannot take it in a header */
};

/* The document must be that of the issuer, letter by letter. Where the issuer is https, so is all
 * that it names. */
must_check int provider_metadata_parse(const char *text, size_t len, const char *issuer,
                                       struct provider_metadata *ret, struct err *err);
void provider_metadata_done(struct provider_metadata *m); /* twice is fine */
