// SPDX-License-Identifier: Apache-2.0
/* Reads what a rule does. A policy may not set header fields that decide about framing or
 * routing. */
#include "net/policy/identity_reference.h"
#include "net/policy/policy_json.h"
#include "net/policy/scrub.h"

#include <string.h>
#include <strings.h>

#define HEADERS_MAX      64
#define HEADER_NAME_MAX  128
#define HEADER_VALUE_MAX 8192
#define BODY_MAX         65536
#define URL_MAX          2048
#define CREDENTIAL_MAX   255 /* as SOCKS has it */

static bool is_token(const char *text)
{
	for (const char *p = text; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') ||
		      strchr("!#$%&'*+-.^_`|~", *p)))
			return false;
	return *text != '\0';
}

static bool is_line(const char *text)
{
	for (const char *p = text; *p; p++)
		if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
			return false;
	return true;
}

static const char *check_header(const char *name, const json_t *value)
{
	static const char *const ours[] = {"connection", "content-length",    "expect",
	                                   "host",       "keep-alive",        "te",
	                                   "trailer",    "transfer-encoding", "upgrade"};
	const char *text = json_string_value(value);

	if (strlen(name) > HEADER_NAME_MAX || !is_token(name))
		return "is no name of a header";
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (strcmp(name, ours[i]) == 0)
			return "is not a policy's to set";
	if (strncmp(name, "proxy-", 6) == 0)
		return "is not a policy's to set";
	if (!text || strlen(text) != json_string_length(value) || !is_line(text))
		return "must have a value that is one line of text";
	if (strlen(text) > HEADER_VALUE_MAX)
		return "has a value of more than 8 KiB";
	if (strcmp(text, POLICY_REDACTED) == 0)
		return "has the text that stands for a secret that is not shown: send its value";
	return NULL;
}

static struct policy_header *find_header(const struct policy_rule *rule, const char *name)
{
	for (size_t i = 0; i < rule->n_headers; i++)
		if (strcasecmp(rule->headers[i].name, name) == 0)
			return &rule->headers[i];
	return NULL;
}

static int read_headers(struct policy_reader *r, const json_t *object, const char *field,
                        struct policy_rule *ret)
{
	const char *key;
	json_t *value;

	if (json_object_size(object) > HEADERS_MAX)
		return err_field(r->err, field, "has more than %d headers", HEADERS_MAX);
	if (policy_count(r, field, json_object_size(object)) < 0)
		return -EINVAL;
	ret->headers = xnew0n(struct policy_header, json_object_size(object) + 1);
	json_object_foreach ((json_t *)unconst(object), key, value) {
		auto_free char *name = xstrdup(key);
		const char *why;

		for (char *p = name; *p; p++)
			if (*p >= 'A' && *p <= 'Z')
				*p = (char)(*p + ('a' - 'A'));
		why = find_header(ret, name) ? "is given twice" : check_header(name, value);
		if (why)
			return err_field(r->err, field, "'%.60s' %s", key, why);
		ret->headers[ret->n_headers].value = xstrdup(json_string_value(value));
		ret->headers[ret->n_headers++].name = take_ptr(name);
	}
	return 0;
}

static int read_url(struct policy_reader *r, const char *text, const char *field, bool is_proxy,
                    struct policy_target *ret)
{
	const char *why = NULL;

	ret->url_text = xstrdup(text);
	if (url_parse(ret->url_text, strlen(text), &ret->url, &why) < 0)
		return err_field(r->err, field, "%s", why);
	if (ret->url.query)
		return err_field(r->err, field, "has a query");
	if (is_proxy && (ret->url.path_len > 1 ||
	                 (ret->url.scheme != URL_SOCKS5 && ret->url.scheme != URL_HTTP)))
		return err_field(r->err, field,
		                 "must be 'socks5://HOST:PORT' or 'http://HOST:PORT'");
	if (!is_proxy && ret->url.scheme != URL_HTTP && ret->url.scheme != URL_HTTPS)
		return err_field(r->err, field, "must begin with http:// or https://");
	return 0;
}

static int read_scrub(struct policy_reader *r, const json_t *list, const char *field,
                      struct policy_rule *ret)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));
		struct policy_header *h = name ? find_header(ret, name) : NULL;

		if (!h)
			return policy_refuse_entry(r, field, i, name, "is none of the headers");
		if (strlen(scrub_credential(h->value)) < SCRUB_MIN)
			return policy_refuse_entry(r, field, i, name,
			                           "has a value too short to be told from "
			                           "other text: it needs 8 bytes");
		if (!h->is_scrubbed && ++r->n_scrubs > POLICY_SCRUBS_MAX)
			return err_field(r->err, field, "a policy may have up to %d of these",
			                 POLICY_SCRUBS_MAX);
		h->is_scrubbed = true;
	}
	return 0;
}

/* Each costs a signature whenever the wall is told the policy. */
static int check_references(struct policy_reader *r, const char *field,
                            const struct policy_rule *rule)
{
	for (size_t i = 0; i < rule->n_headers; i++) {
		if (!identity_reference_is_in(rule->headers[i].value))
			continue;
		if (!identity_reference_audience(rule->headers[i].value))
			return err_field(r->err, field,
			                 "'%.60s' must be 'identity://AUDIENCE', with 'Bearer ' "
			                 "before it or nothing else",
			                 rule->headers[i].name);
		if (++r->n_references > IDENTITY_AUDIENCES_MAX)
			return err_field(r->err, field,
			                 "a policy may have up to %d headers with identity://",
			                 IDENTITY_AUDIENCES_MAX);
	}
	return 0;
}

static int read_transform(struct policy_reader *r, const json_t *value, const char *prefix,
                          struct policy_rule *ret)
{
	json_t *headers = NULL, *scrub = NULL;
	const struct json_field fields[] = {
		{"headers", JSON_FIELD_OBJECT, &headers, .required = true},
		{"scrub", JSON_FIELD_ARRAY, &scrub},
	};
	char field[FIELD_SIZE];

	if (json_read(value, prefix, fields, ARRAY_SIZE(fields), r->err) < 0)
		return -EINVAL;
	(void)snprintf(field, sizeof(field), "%sheaders", prefix);
	if (read_headers(r, headers, field, ret) < 0)
		return -EINVAL;
	if (check_references(r, field, ret) < 0)
		return -EINVAL;
	(void)snprintf(field, sizeof(field), "%sscrub", prefix);
	return read_scrub(r, scrub, field, ret);
}

static int read_forward(struct policy_reader *r, const json_t *value, const char *prefix,
                        struct policy_rule *ret)
{
	const char *url = NULL;
	const struct json_field fields[] = {
		{"url", JSON_FIELD_STRING, &url, .required = true, .max = URL_MAX}};
	char field[FIELD_SIZE];

	if (json_read(value, prefix, fields, ARRAY_SIZE(fields), r->err) < 0)
		return -EINVAL;
	(void)snprintf(field, sizeof(field), "%surl", prefix);
	return read_url(r, url, field, /* is_proxy= */ false, &ret->target);
}

int policy_read_proxy(struct policy_reader *r, const json_t *value, const char *prefix,
                      struct policy_target *ret)
{
	const char *url = NULL, *username = NULL, *password = NULL;
	const struct json_field fields[] = {
		{"url", JSON_FIELD_STRING, &url, .required = true, .max = URL_MAX},
		{"username", JSON_FIELD_STRING, &username, .min = 1, .max = CREDENTIAL_MAX},
		{"password", JSON_FIELD_STRING, &password, .min = 1, .max = CREDENTIAL_MAX},
	};
	char field[FIELD_SIZE];

	if (json_read(value, prefix, fields, ARRAY_SIZE(fields), r->err) < 0)
		return -EINVAL;
	(void)snprintf(field, sizeof(field), "%spassword", prefix);
	if (password && !username)
		return err_field(r->err, field, "needs a username");
	if (password && strcmp(password, POLICY_REDACTED) == 0)
		return err_field(r->err, field, "is the text that stands for it: send its value");
	ret->username = username ? xstrdup(username) : NULL;
	ret->password = password ? xstrdup(password) : NULL;
	(void)snprintf(field, sizeof(field), "%surl", prefix);
	return read_url(r, url, field, /* is_proxy= */ true, ret);
}

static int read_proxy(struct policy_reader *r, const json_t *value, const char *prefix,
                      struct policy_rule *ret)
{
	return policy_read_proxy(r, value, prefix, &ret->target);
}

static int read_respond(struct policy_reader *r, const json_t *value, const char *prefix,
                        struct policy_rule *ret)
{
	const char *body = NULL, *content_type = NULL;
	json_t *headers = NULL;
	uint64_t status = 0;
	const struct json_field fields[] = {
		{"status", JSON_FIELD_U64, &status, .required = true, .min = 200, .max = 599},
		{"headers", JSON_FIELD_OBJECT, &headers},
		{"content_type", JSON_FIELD_STRING, &content_type, .min = 1, .max = 255},
		{"body", JSON_FIELD_STRING, &body, .max = BODY_MAX},
	};
	char field[FIELD_SIZE];

	if (json_read(value, prefix, fields, ARRAY_SIZE(fields), r->err) < 0)
		return -EINVAL;
	ret->status = (unsigned)status;
	(void)snprintf(field, sizeof(field), "%sbody", prefix);
	if (body && (status == 204 || status == 205 || status == 304))
		return err_field(r->err, field, "must be absent with this status");
	(void)snprintf(field, sizeof(field), "%scontent_type", prefix);
	if (!content_type != !body || (content_type && !is_line(content_type)))
		return err_field(r->err, field, "is one line, given with a body and only then");
	ret->body = body ? xstrdup(body) : NULL;
	ret->content_type = content_type ? xstrdup(content_type) : NULL;
	(void)snprintf(field, sizeof(field), "%sheaders", prefix);
	return headers ? read_headers(r, headers, field, ret) : 0;
}

int policy_read_action(struct policy_reader *r, const json_t *value, const char *field,
                       struct policy_rule *ret)
{
	static int (*const readers[ACTION_COUNT])(struct policy_reader * r, const json_t *value,
	                                          const char *prefix, struct policy_rule *ret) = {
		[ACTION_TRANSFORM] = read_transform, [ACTION_FORWARD] = read_forward,
		[ACTION_PROXY] = read_proxy,         [ACTION_RESPOND] = read_respond,
		[ACTION_SSH] = policy_read_ssh,
	};
	const char *word = json_string_value(value);

	for (size_t i = 0; i < ACTION_COUNT; i++) {
		const char *name = policy_action_name((enum policy_action)i);
		const json_t *inner = json_object_get(value, name);
		char prefix[FIELD_SIZE];

		ret->action = (enum policy_action)i;
		if (word && !readers[i] && strcmp(word, name) == 0)
			return 0;
		if (!inner || !readers[i] || json_object_size(value) != 1)
			continue;
		if (!json_is_object(inner))
			return err_field(r->err, field, "'%s' must be an object", name);
		(void)snprintf(prefix, sizeof(prefix), "%s.%s.", field, name);
		return readers[i](r, inner, prefix, ret);
	}
	ret->action = ACTION_DENY;
	return err_field(r->err, field,
	                 "must be 'allow', 'deny' or an object with one of transform, forward, "
	                 "proxy, respond and ssh");
}
