// SPDX-License-Identifier: Apache-2.0
/* Parses a source: what may be asked for, and what it needs from the wall. No I/O, no state. */
#include "sandbox/lifecycle/create_source.h"

#include "base/parse.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/network.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#define URL_MAX         2048
#define REVISION_MAX    256
#define SECRET_MAX      4096
#define DEPTH_MAX       1000000
#define TIMEOUT_MS      (UINT64_C(300) * 1000)
#define TIMEOUT_MS_MOST (UINT64_C(3600) * 1000)
#define POLICY_MAX      ((size_t)256 * 1024)
#define USERNAME        "x-access-token" /* those who take a token do not look at the name */

static const char *const types[] = {[SOURCE_GIT] = "git", [SOURCE_TARBALL] = "tarball"};
static_assert(ARRAY_SIZE(types) == SOURCE_TYPE_COUNT, "a type has no name");

static void wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void source_free(struct source *s)
{
	if (!s)
		return;
	free(s->url);
	free(s->revision);
	free(s->path);
	wipe(s->password);
	wipe(s->authorization);
	free(s);
}

static int read_type(struct source *s, const char *word, struct err *err)
{
	for (unsigned i = 0; i < SOURCE_TYPE_COUNT; i++)
		if (strcmp(word, types[i]) == 0) {
			s->type = (enum source_type)i;
			return 0;
		}
	return err_field(err, "source.type", "must be git or tarball");
}

static int read_url(struct source *s, const char *url, struct err *err)
{
	const char *why;

	s->url = xstrdup(url);
	if (url_parse(s->url, strlen(s->url), &s->parsed, &why) < 0) {
		(void)err_field(err, "source.url", "%s", why);
		return err_hint(err, "a user and password go into source.credentials");
	}
	if (s->parsed.scheme != URL_HTTP && s->parsed.scheme != URL_HTTPS)
		return err_field(err, "source.url", "must begin with http:// or https://");
	if (strpbrk(s->url, "\"\\"))
		return err_field(err, "source.url", "has a character that must be encoded");
	return 0;
}

static bool is_commit(const char *revision)
{
	size_t len = strlen(revision);

	return (len == 40 || len == 64) && strspn(revision, "0123456789abcdef") == len;
}

/* git itself refuses bad names of refs. This refuses what could be taken for an option or be
 * misread by a shell. */
static int read_revision(struct source *s, const char *revision, uint64_t depth, struct err *err)
{
	if (s->type != SOURCE_GIT && (revision || depth))
		return err_field(err, revision ? "source.revision" : "source.depth",
		                 "is of git only");
	s->revision = xstrdup(revision ? revision : "");
	s->depth = depth;
	if (s->revision[0] == '-')
		return err_field(err, "source.revision", "must not begin with '-'");
	for (const char *p = s->revision; *p; p++)
		if (*p <= ' ' || *p == 0x7f)
			return err_field(err, "source.revision", "must not have blanks");
	s->is_fetched = is_commit(s->revision) || strncmp(s->revision, "refs/", 5) == 0;
	return 0;
}

/* "https://example.com/team/app.git" is put into "app". */
static int name_after_url(struct source *s, struct err *err)
{
	static const char suffix[] = ".git";
	size_t len = s->parsed.path_len, start;

	while (len > 0 && s->parsed.path[len - 1] == '/')
		len--;
	for (start = len; start > 0 && s->parsed.path[start - 1] != '/'; start--)
		;
	if (len - start > strlen(suffix) &&
	    strncmp(s->parsed.path + len - strlen(suffix), suffix, strlen(suffix)) == 0)
		len -= strlen(suffix);
	s->path = xstrndup(s->parsed.path + start, len - start);
	for (const char *p = s->path; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return err_field(err, "source.path", "is needed: the URL's end is no name");
	if (s->path[0] == '\0' || s->path[0] == '.' || s->path[0] == '-')
		return err_field(err, "source.path", "is needed: the URL's end is no name");
	return 0;
}

static int read_path(struct source *s, const char *path, struct err *err)
{
	if (path && path[0] == '-')
		return err_field(err, "source.path", "must not begin with '-'");
	if (path)
		s->path = xstrdup(path);
	else if (s->type == SOURCE_TARBALL)
		s->path = xstrdup(".");
	else
		return name_after_url(s, err);
	return 0;
}

static int read_credentials(struct source *s, const json_t *object, struct err *err)
{
	const char *username = USERNAME, *password = "";
	const struct json_field fields[] = {
		{"username", JSON_FIELD_STRING, &username, .min = 1, .max = SECRET_MAX},
		{"password", JSON_FIELD_STRING, &password, true, .min = 1, .max = SECRET_MAX},
	};
	char *plain;
	size_t len;
	int r;

	if (!object)
		return 0;
	r = json_read(object, "source.credentials.", fields, ARRAY_SIZE(fields), err);
	if (r < 0)
		return r;
	if (strchr(username, ':'))
		return err_field(err, "source.credentials.username", "must not have a ':'");
	s->password = xstrdup(password);
	plain = xasprintf("%s:%s", username, password);
	len = strlen(plain);
	s->authorization = xcalloc(1, strlen("Basic ") + base64_size(len));
	memcpy(s->authorization, "Basic ", strlen("Basic "));
	(void)base64_encode(plain, len, s->authorization + strlen("Basic "));
	wipe(plain);
	return 0;
}

int source_read(const json_t *value, struct source **ret, struct err *err)
{
	auto_call(source_freep) struct source *s = xnew0(struct source);
	const char *type = "", *url = "", *revision = NULL, *path = NULL;
	json_t *credentials = NULL;
	uint64_t depth = 0;
	const struct json_field fields[] = {
		{"type", JSON_FIELD_STRING, &type, true},
		{"url", JSON_FIELD_STRING, &url, true, .min = 1, .max = URL_MAX},
		{"revision", JSON_FIELD_STRING, &revision, .min = 1, .max = REVISION_MAX},
		{"depth", JSON_FIELD_U64, &depth, .min = 1, .max = DEPTH_MAX},
		{"path", JSON_FIELD_STRING, &path, .min = 1, .max = START_PATH_MAX - 1},
		{"timeout_ms", JSON_FIELD_U64, &s->timeout_ms, .min = 1, .max = TIMEOUT_MS_MOST},
		{"credentials", JSON_FIELD_OBJECT, &credentials},
	};
	int r;

	s->timeout_ms = TIMEOUT_MS;
	r = json_read(value, "source.", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = read_type(s, type, err);
	if (r == 0)
		r = read_url(s, url, err);
	if (r == 0)
		r = read_revision(s, revision, depth, err);
	if (r == 0)
		r = read_path(s, path, err);
	if (r == 0)
		r = read_credentials(s, credentials, err);
	if (r < 0)
		return r;
	*ret = take_ptr(s);
	return 0;
}

json_t *source_describe(const struct source *s)
{
	size_t len = strcspn(s->url, "?");

	return json_pack("{s:s, s:s%, s:s*, s:s}", "type", types[s->type], "url", s->url, len,
	                 "revision", s->revision[0] ? s->revision : NULL, "path", s->path);
}

/* The ranges that own requires for the name's addresses, as JSON; NULL if none. */
static json_t *find_ranges(const struct policy *own, const json_t *rules,
                           const struct hostname *name)
{
	for (size_t i = 0; i < own->n_rules; i++) {
		const struct policy_match *m = &own->rules[i].match;

		if (m->n_cidrs == 0 || own->rules[i].action == ACTION_DENY)
			continue;
		for (size_t k = 0; k < m->n_domains; k++)
			if (hostname_pattern_matches(&m->domains[k], name))
				return json_object_get(
					json_object_get(json_array_get(rules, i), "match"),
					"cidrs");
	}
	return NULL;
}

static json_t *make_rule(const struct source *s, const struct policy *own, const json_t *rules)
{
	const struct host *host = &s->parsed.host;
	bool is_tls = s->parsed.scheme == URL_HTTPS;
	char text[HOST_SIZE] = "";
	json_t *match = json_pack("{s:[i]}", "ports", (int)s->parsed.port);
	json_t *ranges = host->is_name ? find_ranges(own, rules, &host->name) : NULL;

	if (host->is_name) {
		host_format(host, text);
		(void)json_object_set_new(match, "domains", json_pack("[s]", text));
	} else {
		address_format(&host->address, text);
		(void)json_object_set_new(match, "cidrs", json_pack("[s]", text));
	}
	if (ranges)
		(void)json_object_set(match, "cidrs", ranges);
	(void)json_object_set_new(match, "protocol", json_string(is_tls ? "tls" : "http"));
	if (s->authorization)
		return json_pack("{s:o, s:{s:{s:{s:s}}}}", "match", match, "action", "transform",
		                 "headers", "authorization", s->authorization);
	/* A transform, even an empty one, makes the wall look inside TLS, whatever the sandbox's
	 * own policy allows. So the wall verifies the server's name, independent of the template's
	 * certificates. */
	if (is_tls)
		return json_pack("{s:o, s:{s:{s:{}}}}", "match", match, "action", "transform",
		                 "headers");
	return json_pack("{s:o, s:s}", "match", match, "action", "allow");
}

/* The canonical form of own as an object with rules. */
static int copy_policy(const struct policy *own, json_t **ret, struct err *err)
{
	auto_call(buf_done) struct buf text = BUF_INIT(POLICY_MAX);
	auto_json json_t *value = NULL;
	struct json_writer w;
	int r;

	json_writer_init(&w, &text);
	json_open_object(&w, NULL);
	policy_write(own, &w, "own", SECRETS_SHOWN);
	json_close_object(&w);
	r = json_writer_end(&w);
	if (r == 0)
		r = json_parse(text.data, text.len, &value, err);
	if (text.data)
		explicit_bzero(text.data, text.len);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot copy the sandbox's policy");
	*ret = json_incref(json_object_get(value, "own"));
	if (!json_is_string(*ret))
		return 0;
	r = strcmp(json_string_value(*ret), "allow-all");
	json_decref(*ret);
	*ret = r == 0 ? json_pack("{s:[{s:s}]}", "rules", "action", "allow")
	              : json_pack("{s:[]}", "rules");
	return 0;
}

int source_policy(const struct source *s, const struct policy *own, struct policy **ret,
                  struct err *err)
{
	auto_json json_t *value = NULL;
	json_t *rules;
	int r = copy_policy(own, &value, err);

	if (r < 0)
		return r;
	rules = json_object_get(value, "rules");
	(void)json_array_insert_new(rules, 0, make_rule(s, own, rules));
	return network_read(value, "source", ret, err);
}

static void blot(char *text, const char *secret)
{
	size_t len = strlen(secret);

	for (char *at = strstr(text, secret); len > 0 && at; at = strstr(at + len, secret))
		memset(at, '*', len);
}

void source_scrub(const struct source *s, char *text)
{
	if (!s->authorization)
		return;
	blot(text, s->password);
	blot(text, strchr(s->authorization, ' ') + 1);
}
