// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/control/workload_token.h"

#include "compat/e2b/frame/body.h"

#include "net/policy/identity_reference.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_LEN 128

static bool is_name(const char *name)
{
	for (const char *c = name; *c; c++)
		if (*c == '{' || *c == '}' || (unsigned char)*c < ' ' || *c == 0x7f)
			return false;
	return *name && strlen(name) <= NAME_MAX_LEN;
}

/* What is signed is a JWT. A JWT-SVID is one too, whose subject is a SPIFFE ID: ours is not, and
 * the clouds that E2B's examples name do not ask for it. */
static bool is_kind(const char *kind)
{
	return strcmp(kind, "JWT-SVID") == 0 || strcmp(kind, "JWT") == 0;
}

static int read_one(const char *name, const json_t *token, json_t *out, struct err *err)
{
	const char *audience = "", *kind = "";
	char field[NAME_MAX_LEN + 32];
	int r;

	if (!is_name(name))
		return err_field(err, "iam.tokens",
		                 "a name has 1 to %d bytes, without '{', '}' and control "
		                 "characters",
		                 NAME_MAX_LEN);
	(void)snprintf(field, sizeof(field), "iam.tokens.%s", name);
	if (!json_is_object(token))
		return err_field(err, field, "must be an object with audience and tokenType");
	r = body_text(token, "audience", &audience, err);
	if (r == 0)
		r = body_text(token, "tokenType", &kind, err);
	if (r < 0)
		return err_prefix(err, "%s", field);
	if (!audience_is_valid(audience))
		return err_field(err, field,
		                 "its audience must have 1 to %d letters, digits and signs of URLs",
		                 AUDIENCE_MAX);
	if (!is_kind(kind))
		return err_field(err, field, "its tokenType must be JWT-SVID or JWT");
	(void)json_object_set_new(out, name, json_string(audience));
	return 0;
}

int workload_token_read(const json_t *body, json_t **ret, struct err *err)
{
	auto_json json_t *out = json_object();
	const json_t *iam = NULL, *tokens = NULL;
	const char *name;
	json_t *token;
	int r = body_object(body, "iam", &iam, err);

	*ret = NULL;
	if (r == 0)
		r = body_object(iam, "tokens", &tokens, err);
	if (r == 0 && json_object_size(tokens) > WORKLOAD_TOKENS_MAX)
		r = err_field(err, "iam.tokens", "may have up to %d", WORKLOAD_TOKENS_MAX);
	json_object_foreach ((json_t *)unconst(tokens), name, token) {
		if (r == 0)
			r = read_one(name, token, out, err);
	}
	if (r == 0 && json_object_size(out) > 0)
		*ret = take_ptr(out);
	return r;
}

const char *workload_token_audience(const json_t *tokens, const char *name, size_t len,
                                    struct err *err)
{
	const char *audience = json_string_value(json_object_getn(tokens, name, len));

	if (audience)
		return audience;
	(void)err_field(err, "network.rules",
	                "a header names the token '%.*s', which the sandbox does not have",
	                (int)(len > 60 ? 60 : len), name);
	(void)err_hint(err, "iam.tokens of the create has those that it has");
	return NULL;
}
