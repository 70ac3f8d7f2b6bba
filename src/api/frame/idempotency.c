// SPDX-License-Identifier: Apache-2.0
#include "api/frame/idempotency.h"

#include <openssl/evp.h>
#include <string.h>

#define HEADER "Idempotency-Key"

static bool is_key(const char *text)
{
	size_t len = strlen(text);

	for (const char *p = text; *p; p++)
		if (*p < '!' || *p > '~')
			return false;
	return len >= 1 && len <= IDEMPOTENCY_KEY_MAX;
}

/* The body is digested as parsed, with its names in order: how it was spelt does not matter. */
static void digest(const struct http_req *req, unsigned char ret[32])
{
	const json_t *body = http_json(req);
	auto_free char *text = body ? json_dumps(body, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
	auto_free char *whole = xasprintf("%s %s %s", http_method_name(http_req_method(req)),
	                                  http_path(req), text ? text : "");

	if (EVP_Digest(whole, strlen(whole), ret, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* only on no memory */
}

int idempotency_read(const struct http_req *req, struct idempotency_key *ret, struct err *err)
{
	const char *key = http_header(req, HEADER);

	if (!key)
		return 0;
	if (!is_key(key))
		return err_field(err, HEADER, "must have 1 to %d visible ASCII characters",
		                 IDEMPOTENCY_KEY_MAX);
	ret->key = key;
	digest(req, ret->digest);
	return 1;
}

int idempotency_refuse(const struct http_req *req, struct err *err)
{
	if (!http_header(req, HEADER))
		return 0;
	return err_field(err, HEADER, "is for creates of sandboxes and execs only");
}
