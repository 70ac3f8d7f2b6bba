// SPDX-License-Identifier: Apache-2.0
#include "cli/remote/remote.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/units.h"
#include "cli/remote/saved_login.h"
#include "cli/term/text.h"
#include "cli/term/waiting.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define REPLY_MAX    (64 * 1024 * 1024) /* a sync exec's output, twice, in base64 */
#define PATH_MAX_    (4 * 1024 * 1024)  /* a word has at most 128 KiB (execve(2)), thrice escaped */
#define KEY_FILE_MAX 256
#define ASK_US       (2 * SECOND_US) /* for a place in the line of creates */

struct remote {
	char *url, *key; /* key may be NULL */
	char *bearer;
	struct http_client *client;
	const char *note;
	json_t *incomplete;       /* of the last list; or NULL */
	char request_id[ID_SIZE]; /* of a create that may wait for room; "" */
	struct remote *asks;      /* meanwhile, where it stands; or NULL */
};

void remote_note(struct remote *r, const char *what)
{
	r->note = what;
}

void remote_note_queue(struct remote *r)
{
	if (isatty(STDERR_FILENO))
		id_make(r->request_id, "req");
}

/* Over a connection of its own, since the create's is busy. Nobody misses what cannot be had. */
static char *ask_place(void *arg)
{
	struct remote *r = arg;
	auto_free char *path = remote_query(xstrdup("/v1/creates"), "request", r->request_id);
	auto_json json_t *reply = NULL;
	const json_t *one;
	struct err err;

	if (!r->asks && remote_open_again(r, &r->asks, &err) < 0)
		return NULL;
	http_client_set_deadline(r->asks->client, clock_steady_us() + ASK_US);
	if (remote_call(r->asks, "GET", path, NULL, &reply, &err) < 0) {
		remote_close(take_ptr(r->asks));
		return NULL;
	}
	one = json_array_get(json_object_get(reply, "creates"), 0);
	if (!one)
		return NULL;
	return xasprintf("number %lld of %lld that wait for room",
	                 (long long)json_integer_value(json_object_get(one, "position")),
	                 (long long)json_integer_value(json_object_get(reply, "waiting")));
}

struct http_client *remote_client(struct remote *r)
{
	return r->client;
}

const char *remote_key(const struct remote *r)
{
	return r->key;
}

const char *remote_url(const struct remote *r)
{
	return r->url;
}

void remote_close(struct remote *r)
{
	if (!r)
		return;
	remote_close(r->asks);
	http_client_close(r->client);
	free(r->url);
	free(r->key);
	free(r->bearer);
	json_decref(r->incomplete);
	free(r);
}

int remote_open_at(const char *url, const char *key, struct remote **ret, struct err *err)
{
	auto_call(remote_closep) struct remote *r = xnew0(struct remote);
	int rc;

	r->url = xstrdup(url);
	r->key = key ? xstrdup(key) : NULL;
	r->bearer = key ? xasprintf("Bearer %s", key) : NULL;
	rc = http_client_open(r->url, &r->client, err);
	if (rc < 0)
		return rc;
	*ret = take_ptr(r);
	return 0;
}

int remote_open_again(const struct remote *other, struct remote **ret, struct err *err)
{
	return remote_open_at(other->url, other->key, ret, err);
}

int remote_read_key(const char *path, char **ret, struct err *err)
{
	char text[KEY_FILE_MAX];
	int len = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	size_t end;

	if (len < 0)
		return err_set(err, ERR_UNAUTHENTICATED, -len, "cannot read the key file '%s'",
		               path);
	end = strcspn(text, " \t\r\n");
	if (end == 0 || end == sizeof(text) - 1 || text[end + strspn(text + end, " \t\r\n")])
		return err_set(err, ERR_UNAUTHENTICATED, 0, "'%s' does not hold one API key", path);
	*ret = xstrndup(text, end);
	return 0;
}

static int find_key(const struct opts_common *common, const char *url, bool is_usual_place,
                    char **ret, struct err *err)
{
	const char *env = getenv("CLOCHE_API_KEY");

	*ret = NULL;
	if (common->key_file)
		return remote_read_key(common->key_file, ret, err);
	*ret = env && *env ? xstrdup(env) : saved_login_find(url);
	if (!*ret && is_usual_place && access(REMOTE_ADMIN_KEY, R_OK) == 0)
		return remote_read_key(REMOTE_ADMIN_KEY, ret, err);
	return 0;
}

/* "unix:///path" is how some write it; a slash at the end means nothing. */
static char *plain_url(const char *url)
{
	size_t len = strlen(url);

	if (strncmp(url, "unix:///", 8) == 0)
		return xasprintf("unix:%s", url + 7);
	while (len > 0 && url[len - 1] == '/')
		len--;
	return xstrndup(url, len);
}

/* -ENOKEY: there is a key, and it cannot be read. */
static int open_with_key(const struct opts_common *common, const char *url, bool is_usual_place,
                         bool is_keyless, struct remote **ret, struct err *err)
{
	auto_free char *key = NULL;

	if (!is_keyless && find_key(common, url, is_usual_place, &key, err) < 0)
		return -ENOKEY;
	return remote_open_at(url, key, ret, err);
}

static int open_somewhere(const struct opts_common *common, bool is_keyless, struct remote **ret,
                          struct err *err)
{
	static const char *const usual[] = {"unix:" REMOTE_SOCKET, REMOTE_TCP};
	const char *env = getenv("CLOCHE_URL");
	const char *said = common->url ? common->url : env && *env ? env : NULL;
	auto_free char *url = said ? plain_url(said) : NULL;
	int r;

	if (url) {
		r = open_with_key(common, url, false, is_keyless, ret, err);
		if (r < 0 && r != -ENOKEY && !*err->hint)
			(void)err_hint(err, "is the daemon up at %s (%s)?", url,
			               common->url ? "--url" : "CLOCHE_URL");
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
		r = open_with_key(common, usual[i], true, is_keyless, ret, err);
		if (r == 0 || r == -ENOKEY)
			return r;
	}
	(void)err_set(err, ERR_UNAVAILABLE, 0, "no daemon is running at %s or %s", REMOTE_SOCKET,
	              REMOTE_TCP);
	(void)err_hint(err, "start one with 'sudo cloche serve', or say where it is in CLOCHE_URL");
	return -ENOTCONN;
}

int remote_open(const struct opts_common *common, struct remote **ret, struct err *err)
{
	return open_somewhere(common, /* is_keyless= */ false, ret, err);
}

int remote_open_keyless(const struct opts_common *common, struct remote **ret, struct err *err)
{
	return open_somewhere(common, /* is_keyless= */ true, ret, err);
}

static void append(struct buf *out, const char *text, bool escape)
{
	int r = escape ? http_escape(out, text) : buf_append_str(out, text);

	assert(r == 0);
	(void)r;
}

static char *take_text(struct buf *b)
{
	char *text = xstrdup(buf_str(b));

	buf_done(b);
	return text;
}

char *remote_path_of(const char *const *segments, size_t n)
{
	struct buf out = BUF_INIT(PATH_MAX_);

	append(&out, "/v1", false);
	for (size_t i = 0; i < n; i++) {
		append(&out, "/", false);
		append(&out, segments[i], true);
	}
	return take_text(&out);
}

char *remote_query(char *path, const char *name, const char *value)
{
	struct buf out = BUF_INIT(PATH_MAX_);

	append(&out, path, false);
	append(&out, strchr(path, '?') ? "&" : "?", false);
	append(&out, name, false);
	append(&out, "=", false);
	append(&out, value, true);
	free(path);
	return take_text(&out);
}

enum err_code remote_error_code(const char *name)
{
	for (int c = 1; c < ERR_CODE_COUNT; c++)
		if (name && strcmp(err_code_name((enum err_code)c), name) == 0)
			return (enum err_code)c;
	return ERR_INTERNAL;
}

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

/* Turns the answer's error body into the err that the daemon had. */
static int read_refusal(struct remote *r, int status, struct err *err)
{
	struct buf body = BUF_INIT(64 * 1024);
	auto_json json_t *reply = NULL;
	const json_t *e;

	if (http_client_read_all(r->client, &body) < 0 ||
	    json_parse(buf_str(&body), body.len, &reply, NULL) < 0)
		reply = NULL; /* a proxy's page, or half an answer */
	buf_done(&body);
	e = json_object_get(reply, "error");
	if (!text_of(e, "message"))
		return err_set(err, ERR_INTERNAL, 0, "%s answered with status %d and no reason",
		               r->url, status);
	(void)err_set(err, remote_error_code(text_of(e, "code")), 0, "%s", text_of(e, "message"));
	if (text_of(e, "field"))
		(void)snprintf(err->field, sizeof(err->field), "%s", text_of(e, "field"));
	if (err->code == ERR_UNAUTHENTICATED) /* the daemon's hint is for programs */
		return err_hint(err, "log in with `cloche login`, set CLOCHE_API_KEY, or give "
		                     "--key-file; the first key is in admin.key in the daemon's "
		                     "data directory");
	return text_of(e, "hint") ? err_hint(err, "%s", text_of(e, "hint")) : -EINVAL;
}

int remote_begin(struct remote *r, const char *method, const char *path,
                 const struct remote_request *request, struct err *err)
{
	const bool is_queued = r->request_id[0];
	struct http_field fields[4 + REMOTE_FIELDS_MAX] = {
		{"Accept", request->accept ? request->accept : "application/json"},
		{"Authorization", r->bearer},
	};
	const char *project = getenv("CLOCHE_PROJECT");
	size_t n_fields = r->bearer ? 2 : 1;
	auto_free char *text = request->body ? json_dumps(request->body, JSON_COMPACT) : NULL;
	struct http_send send = {
		.method = method,
		.path = path,
		.fields = fields,
		.n_fields = n_fields + request->n_fields,
		.content_type = text              ? "application/json"
	                        : request->source ? "application/octet-stream"
	                                          : NULL,
		.data = text,
		.len = text ? strlen(text) : 0,
		.source = request->source,
		.source_arg = request->source_arg,
		.source_len = request->source_len,
	};
	int status;
	int rc;

	if (project && *project) {
		fields[n_fields++] = (struct http_field){"X-Cloche-Project", project};
		send.n_fields++;
	}
	if (is_queued) {
		fields[n_fields++] = (struct http_field){"X-Request-Id", r->request_id};
		send.n_fields++;
	}
	if (request->body && !text)
		return err_set(err, ERR_INVALID_FIELD, 0, "a word is not valid UTF-8");
	assert(request->n_fields <= REMOTE_FIELDS_MAX);
	for (size_t i = 0; i < request->n_fields; i++)
		fields[n_fields + i] = request->fields[i];
	rc = http_client_send(r->client, &send, err);
	if (rc < 0)
		return rc;
	rc = waiting_head(r->client,
	                  &(struct waiting_line){
				  .what = r->note, .more = is_queued ? ask_place : NULL, .arg = r},
	                  &status, err);
	r->request_id[0] = '\0';
	if (rc < 0)
		return rc;
	if (request->ret_status) {
		*request->ret_status = status;
		return 0;
	}
	return status >= 200 && status < 300 ? 0 : read_refusal(r, status, err);
}

int remote_begin_ws(struct remote *r, const char *path, struct err *err)
{
	const char *project = getenv("CLOCHE_PROJECT");
	struct http_field fields[2];
	size_t n = 0;
	int status = 0;
	int rc;

	if (r->bearer)
		fields[n++] = (struct http_field){"Authorization", r->bearer};
	if (project && *project)
		fields[n++] = (struct http_field){"X-Cloche-Project", project};

	do
		rc = http_client_ws_open(r->client, path, fields, n, &status, err);
	while (rc == -EINTR);
	if (rc == -EPROTO && status)
		return read_refusal(r, status, err);
	return rc;
}

int remote_exchange(struct remote *r, const char *method, const char *path,
                    const struct remote_request *request, json_t **ret, struct err *err)
{
	struct buf text = BUF_INIT(REPLY_MAX);
	int rc = remote_begin(r, method, path, request, err);

	if (rc < 0)
		return rc;
	do
		rc = http_client_read_all(r->client, &text);
	while (rc == -EINTR);
	if (rc < 0)
		rc = err_set(err, ERR_INTERNAL, -rc, "the daemon's answer is incomplete");
	else if (ret)
		rc = json_parse(buf_str(&text), text.len, ret, err);
	buf_done(&text);
	return rc;
}

int remote_call(struct remote *r, const char *method, const char *path, const json_t *body,
                json_t **ret, struct err *err)
{
	return remote_exchange(r, method, path, &(struct remote_request){.body = body}, ret, err);
}

void remote_note_incomplete(struct remote *r, const json_t *reply)
{
	if (json_array_size(json_object_get(reply, "incomplete")) == 0)
		return;
	json_decref(r->incomplete);
	r->incomplete = json_incref(json_object_get(reply, "incomplete"));
}

int remote_list(struct remote *r, const char *path, const char *name, json_t *list, struct err *err)
{
	auto_free char *cursor = NULL;

	json_decref(r->incomplete);
	r->incomplete = NULL;
	do {
		auto_free char *page = xstrdup(path);
		auto_json json_t *reply = NULL;
		const char *next;
		int result;

		if (cursor)
			page = remote_query(page, "cursor", cursor);
		result = remote_call(r, "GET", page, NULL, &reply, err);
		if (result < 0)
			return result;
		(void)json_array_extend(list, json_object_get(reply, name));
		next = json_string_value(json_object_get(reply, "next_cursor"));
		remote_note_incomplete(r, reply);
		free(cursor);
		cursor = next ? xstrdup(next) : NULL;
	} while (cursor);
	return 0;
}

static void tell_one(const json_t *part)
{
	const char *node = json_string_value(json_object_get(part, "node"));
	const char *why = json_string_value(json_object_get(part, "why"));
	const json_int_t as_of_us = json_integer_value(json_object_get(part, "as_of_us"));
	auto_free char *name = text_escaped(node ? node : "");
	auto_free char *reason = text_escaped(why ? why : "");
	const uint64_t now = clock_wall_us();
	char age[16];

	if (!node) {
		(void)fprintf(stderr, "cloche: the list may lack nodes: %s\n", reason);
	} else if (as_of_us > 0) {
		text_age(now > (uint64_t)as_of_us ? now - (uint64_t)as_of_us : 0, age);
		(void)fprintf(stderr, "cloche: node %s as of %s ago: %s\n", name, age, reason);
	} else {
		(void)fprintf(stderr, "cloche: the list lacks node %s: %s\n", name, reason);
	}
}

void remote_tell_incomplete(const struct remote *r)
{
	const json_t *part;
	size_t i;

	json_array_foreach(r->incomplete, i, part)
	{
		tell_one(part);
	}
}
