// SPDX-License-Identifier: Apache-2.0
#include "hook/hook_secret.h"

#include "hook/sign.h"
#include "net/match/url.h"
#include "net/policy/secret_reference.h"

#include <stdio.h>
#include <string.h>

#define REFERENCE  "secret://"
#define LABEL_SIZE (2 * ID_SIZE + 16)

static void label_of(const struct hook_secret *s, char ret[LABEL_SIZE])
{
	(void)snprintf(ret, LABEL_SIZE, "webhook %s %s", s->project_id, s->hook_id);
}

static const char *name_of(const char *text)
{
	const size_t len = strlen(REFERENCE);

	return strncmp(text, REFERENCE, len) == 0 ? text + len : NULL;
}

bool hook_secret_names(const char *text, const char *name)
{
	const char *found = name_of(text);

	return found && (!name || strcmp(found, name) == 0);
}

char *hook_secret_seal(const struct hook_secret *s)
{
	auto_call(sealed_text_wipe) char *plain = NULL;
	bool is_stale = true;
	char label[LABEL_SIZE];

	if (!s->secrets || name_of(s->text))
		return NULL;
	label_of(s, label);
	if (!sealed_text_is(s->text))
		plain = xstrdup(s->text);
	else if (sealed_text_open(secrets_keys(s->secrets), label, s->text, &plain, &is_stale) < 0)
		return NULL;
	return is_stale ? sealed_text_make(secrets_keys(s->secrets), label, plain, strlen(plain))
	                : NULL;
}

static int open_named(const struct hook_secret *s, const char *name, char **ret, struct err *err)
{
	char *value;
	ssize_t n;

	if (!s->secrets)
		return err_set(err, ERR_UNSUPPORTED, 0, "this daemon keeps no secrets");
	value = xcalloc(1, ENVELOPE_VALUE_MAX + 1);
	n = secrets_reveal(s->secrets, s->project_id, name, value, err);
	if (n >= 0 && hook_secret_is_valid(value)) {
		*ret = value;
		return 0;
	}
	sealed_text_wipe(&value);
	if (n < 0)
		return (int)n;
	(void)err_set(err, ERR_INVALID_FIELD, 0, "secret '%s' cannot sign", name);
	return err_hint(
		err,
		"give it the form of Standard Webhooks: whsec_ and the base64 of 24 to 64 "
		"bytes, as in `echo whsec_$(openssl rand -base64 32) | cloche secret set %s`",
		name);
}

int hook_secret_open(const struct hook_secret *s, char **ret, struct err *err)
{
	bool is_stale;
	char label[LABEL_SIZE];
	int r;

	if (name_of(s->text))
		return open_named(s, name_of(s->text), ret, err);
	if (!sealed_text_is(s->text)) {
		*ret = xstrdup(s->text);
		return 0;
	}
	label_of(s, label);
	r = s->secrets ? sealed_text_open(secrets_keys(s->secrets), label, s->text, ret, &is_stale)
	               : -ENOKEY;
	if (r == 0)
		return 0;
	(void)err_set(err, ERR_UNAVAILABLE, 0,
	              r == -ENOKEY ? "its secret is locked: the key that sealed it is not in the "
	                             "daemon's key file"
	                           : "its secret is damaged");
	return err_hint(err, "put the key file back and restart the daemon, or give it another "
	                     "secret with `cloche webhook set --secret NAME`");
}

/* One that is for some hosts alone signs for those alone. */
static int check_host(const struct hook_secret *s, const char *url_text, struct err *err)
{
	const char *name = name_of(s->text), *why;
	const struct secret *found = secrets_find(s->secrets, s->project_id, name);
	struct hostname_pattern where;
	struct url url;

	if (!found || !secret_is_bound(found))
		return 0;
	if (url_parse(url_text, strlen(url_text), &url, &why) == 0 && url.host.is_name &&
	    hostname_pattern_parse(url.host.name.text, strlen(url.host.name.text), &where, NULL) ==
	            0 &&
	    secret_may_go(found, &where))
		return 0;
	(void)err_set(err, ERR_FORBIDDEN, 0, "secret '%s' may not be used for this URL", name);
	return err_hint(err, "`cloche secret ls` shows the hosts that it is for");
}

int hook_secret_check(const struct hook_secret *s, const char *url, struct err *err)
{
	auto_call(sealed_text_wipe) char *value = NULL;
	const char *name = name_of(s->text);
	struct err why = {0};
	int r;

	if (!name || !secret_name_is_valid(name)) {
		(void)err_field(err, "secret", "must be secret://NAME");
		return err_hint(err, "keep it with `cloche secret set NAME` first; without this "
		                     "field the daemon makes one");
	}
	r = open_named(s, name, &value, &why);
	if (r == 0)
		r = check_host(s, url, &why);
	if (r == 0)
		return 0;
	r = err_field(err, "secret", "%s", why.message);
	if (err)
		err->errnum = why.errnum;
	return why.hint[0] ? err_hint(err, "%s", why.hint) : r;
}
