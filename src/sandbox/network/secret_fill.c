// SPDX-License-Identifier: Apache-2.0
/*
 * A policy is filled as JSON: its canonical form is written, the values take the references'
 * places, and policy_read() checks the result as it checks what clients send. So a value that would
 * break out of a header is refused by the same rules.
 */
#include "sandbox/network/secret_fill.h"

#include "base/log.h"
#include "net/policy/identity_reference.h"
#include "net/policy/secret_reference.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/identity_fill.h"
#include "secret/secret.h"
#include "wall/client.h"

#include <openssl/crypto.h>
#include <string.h>

#define FILLED_MAX (4 * ENVELOPE_VALUE_MAX) /* a value with its secrets; a header has less */

struct fill {
	const struct fleet *fleet;
	const char *project_id;
	struct err *err;
	const json_t *places; /* names that the value is sent to; NULL: it goes inside */
	bool is_clear;        /* without TLS, so nobody has proven to be one of them */
};

static void wipe(struct buf *b)
{
	if (b->data)
		OPENSSL_cleanse(b->data, b->len);
	buf_done(b);
}

/* Whether a secret that is for some hosts alone goes to those alone. */
static int check_places(const struct fill *f, const struct secret *s, const char *name)
{
	struct hostname_pattern where;

	if (!s || !secret_is_bound(s))
		return 0;
	if (json_array_size(f->places) == 0) {
		(void)err_set(f->err, ERR_FORBIDDEN, 0,
		              "secret '%s' may be sent only to the hosts that it is for", name);
		return err_hint(f->err, "`cloche secret ls` shows its hosts; name them in "
		                        "`domains` of the rule");
	}
	if (f->is_clear)
		return err_set(f->err, ERR_FORBIDDEN, 0,
		               "secret '%s' is bound to hosts, so it is sent only over TLS", name);
	for (size_t i = 0; i < json_array_size(f->places); i++) {
		const char *text = json_string_value(json_array_get(f->places, i));

		if (text && hostname_pattern_parse(text, strlen(text), &where, NULL) == 0 &&
		    secret_may_go(s, &where))
			continue;
		(void)err_set(f->err, ERR_FORBIDDEN, 0, "secret '%s' may not be sent to '%.100s'",
		              name, text ? text : "");
		return err_hint(f->err, "`cloche secret ls` shows the hosts that it is for");
	}
	return 0;
}

static int reveal(const char *name, struct buf *out, void *arg)
{
	const struct fill *f = arg;
	const struct secrets *secrets = f->fleet->config.secrets;
	char value[ENVELOPE_VALUE_MAX + 1];
	ssize_t n;
	int r;

	if (!secrets)
		return err_set(f->err, ERR_UNSUPPORTED, 0, "this daemon keeps no secrets");
	r = check_places(f, secrets_find(secrets, f->project_id, name), name);
	if (r < 0)
		return r;
	n = secrets_reveal(secrets, f->project_id, name, value, f->err);
	r = n < 0 ? (int)n : buf_append(out, value, (size_t)n);
	OPENSSL_cleanse(value, sizeof(value));
	return r;
}

/* Sets *ret, which is wiped by the caller, to the text with its values; 0: it has no reference. */
static int fill_text(struct fill *f, const char *text, struct buf *ret)
{
	char name[SECRET_NAME_SIZE];
	int r;

	if (!secret_reference_find(text, name))
		return 0;
	*f->err = (struct err){0};
	r = secret_reference_fill(text, reveal, f, ret);
	if (r < 0 && f->err->code == ERR_NONE)
		return err_set(f->err, ERR_INVALID_FIELD, 0,
		               name[0] ? "its secrets are too long together"
		                       : "it refers to no secret: write secret://NAME");
	return r < 0 ? r : 1;
}

static int fill_value(struct fill *f, json_t *object, const char *key)
{
	auto_call(wipe) struct buf value = BUF_INIT(FILLED_MAX);
	const char *text = json_string_value(json_object_get(object, key));
	int r = text ? fill_text(f, text, &value) : 0;

	if (r > 0)
		(void)json_object_set_new(object, key, json_stringn(value.data, value.len));
	return MIN(r, 0);
}

/* The host of a URL as a list, or an empty one; the caller owns it. */
static json_t *place_of(const char *text)
{
	struct url url;
	const char *why;

	if (!text || url_parse(text, strlen(text), &url, &why) < 0 || !url.host.is_name)
		return json_array();
	return json_pack("[s]", url.host.name.text);
}

static int fill_target(struct fill *f, json_t *proxy)
{
	auto_json json_t *places = place_of(json_string_value(json_object_get(proxy, "url")));
	int r;

	f->places = places;
	r = fill_value(f, proxy, "username");
	if (r == 0)
		r = fill_value(f, proxy, "password");
	f->places = NULL;
	return r;
}

static int fill_rule(struct fill *f, json_t *rule)
{
	const json_t *match = json_object_get(rule, "match");
	const char *protocol = json_string_value(json_object_get(match, "protocol"));
	json_t *action = json_object_get(rule, "action");
	json_t *headers = json_object_get(json_object_get(action, "transform"), "headers");
	const char *name;
	json_t *value;
	int r = fill_target(f, json_object_get(action, "proxy"));

	f->places = json_object_get(match, "domains");
	f->is_clear = protocol && strcmp(protocol, "http") == 0;
	json_object_foreach (headers, name, value)
		r = r < 0 ? r : fill_value(f, headers, name);
	if (r == 0) /* it is used, not sent, and with the host that has proven to be it */
		r = fill_value(f, json_object_get(action, "ssh"), "key");
	f->places = NULL;
	f->is_clear = false;
	return r;
}

/* Whether the rule alone would be taken by the wall. An error names it by its place. */
static int check_rule(struct fill *f, const json_t *rule, size_t place)
{
	auto_call(policy_freep) struct policy *p = NULL;
	auto_json json_t *alone = json_pack("{s:[O]}", "rules", rule);
	const char *first = ".rules[0]";
	struct err why = {0};

	if (policy_read(alone, "", &p, &why) == 0)
		return 0;
	return err_set(f->err, ERR_INVALID_FIELD, 0, "rules[%zu]%s", place,
	               why.message + (strncmp(why.message, first, strlen(first)) == 0
	                                      ? strlen(first)
	                                      : 0));
}

static json_t *to_json(const struct policy *p)
{
	auto_call(wipe) struct buf text = BUF_INIT(WALL_TEXT_MAX);
	struct json_writer w;
	struct err err;
	json_t *value = NULL;

	json_writer_init(&w, &text);
	json_open_object(&w, NULL);
	policy_write(p, &w, "policy", SECRETS_SHOWN);
	json_close_object(&w);
	if (json_writer_end(&w) < 0 || json_parse(text.data, text.len, &value, &err) < 0)
		return NULL;
	return value;
}

int secret_check_policy(const struct fleet *fleet, const char *project_id, const struct policy *p,
                        const char *field, struct err *err)
{
	struct err why = {0};
	struct fill f = {.fleet = fleet, .project_id = project_id, .err = &why};
	auto_json json_t *whole = NULL;
	json_t *policy, *rule;
	size_t i;
	int r;

	if (!secret_is_in_policy(p, NULL))
		return 0;
	whole = to_json(p);
	policy = json_object_get(whole, "policy");
	r = fill_target(&f, json_object_get(policy, "proxy"));
	json_array_foreach(json_object_get(policy, "rules"), i, rule)
	{
		if (r == 0)
			r = fill_rule(&f, rule);
		if (r == 0)
			r = check_rule(&f, rule, i);
	}
	if (r == 0)
		return 0;
	r = err_field(err, field, "%s", why.message);
	if (err)
		err->errnum = why.errnum; /* SECRET_UNKNOWN */
	return why.hint[0] ? err_hint(err, "%s", why.hint) : r;
}

static bool is_in(const char *text, const char *name)
{
	char found[SECRET_NAME_SIZE];
	const char *at = text;

	while (at && (at = secret_reference_find(at, found))) {
		if (!name || strcmp(found, name) == 0)
			return true;
		at++;
	}
	return false;
}

static bool is_in_target(const struct policy_target *t, const char *name)
{
	return is_in(t->username, name) || is_in(t->password, name);
}

bool secret_is_in_policy(const struct policy *p, const char *name)
{
	if (is_in_target(&p->proxy, name))
		return true;
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];

		if (is_in_target(&rule->target, name) || is_in(rule->ssh.key_text, name))
			return true;
		for (size_t k = 0; rule->action == ACTION_TRANSFORM && k < rule->n_headers; k++)
			if (is_in(rule->headers[k].value, name))
				return true;
	}
	return false;
}

static bool is_literal(const char *text)
{
	return text && text[0] && !secret_reference_is_alone(text) &&
	       !identity_reference_audience(text);
}

static bool has_literal(const struct policy_target *t)
{
	return is_literal(t->username) || is_literal(t->password);
}

bool secret_is_literal_in(const struct policy *p)
{
	if (has_literal(&p->proxy))
		return true;
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];

		if (has_literal(&rule->target) || is_literal(rule->ssh.key_text))
			return true;
		for (size_t k = 0; rule->action == ACTION_TRANSFORM && k < rule->n_headers; k++)
			if (is_literal(rule->headers[k].value))
				return true;
	}
	return false;
}

/* With a proxy that cannot be logged in to, nothing may pass. */
static void fill_whole(struct fill *f, json_t *whole)
{
	json_t *policy = json_object_get(whole, "policy");
	json_t *rule;
	size_t i;

	if (fill_target(f, json_object_get(policy, "proxy")) < 0) {
		log_warn("secret.not_filled", "error='%s'", f->err->message);
		(void)json_object_set_new(whole, "policy", json_string("deny-all"));
		return;
	}
	json_array_foreach(json_object_get(policy, "rules"), i, rule)
	{
		if (fill_rule(f, rule) == 0 && check_rule(f, rule, i) == 0)
			continue;
		log_warn("secret.not_filled", "rule=%zu error='%s'", i, f->err->message);
		(void)json_object_set_new(rule, "action", json_string("deny"));
	}
}

int secret_fill_policy(struct sandbox *s, const struct policy *p, struct buf *out)
{
	struct err err = {0};
	struct fill f = {.fleet = s->fleet, .project_id = s->project_id, .err = &err};
	auto_json json_t *whole = to_json(p);
	char *text;
	int r;

	if (!whole)
		return -ENOBUFS;
	fill_whole(&f, whole);
	identity_fill(s, json_object_get(whole, "policy"));
	text = json_dumps(json_object_get(whole, "policy"), JSON_COMPACT | JSON_ENCODE_ANY);
	r = text ? buf_append(out, text, strlen(text)) : -ENOMEM;
	if (text)
		OPENSSL_cleanse(text, strlen(text));
	free(text);
	return r;
}

int secret_fill_text(const struct fleet *fleet, const char *project_id, const char *value,
                     const char *url, const char *field, char **ret, struct err *err)
{
	auto_call(wipe) struct buf text = BUF_INIT(FILLED_MAX);
	auto_json json_t *places = url ? place_of(url) : NULL;
	struct err why = {0};
	struct fill f = {fleet, project_id, &why, places,
	                 url && strncasecmp(url, "http://", strlen("http://")) == 0};
	int r = secret_reference_is_alone(value) ? fill_text(&f, value, &text) : 0;

	if (r < 0) {
		r = err_field(err, field, "%s", why.message);
		if (err)
			err->errnum = why.errnum; /* SECRET_UNKNOWN */
		return why.hint[0] ? err_hint(err, "%s", why.hint) : r;
	}
	if (r > 0 && memchr(text.data, '\0', text.len))
		return err_field(err, field, "the secret has a NUL, which cannot be there");
	*ret = r > 0 ? xstrndup(text.data, text.len) : xstrdup(value);
	return 0;
}
