// SPDX-License-Identifier: Apache-2.0
/*
 * A bucket of an S3-compatible store. Requests are signed by hand (object/object_sign.h), with the
 * digest of the body, which the store checks. A put is conditional ("If-None-Match: *"); a store
 * that does not know that says 501, and is asked without from then on. No redirect is followed: it
 * says that the region is wrong.
 *
 * The store is not believed: a body is read up to the cap of its buffer and for a minute at most,
 * and what an error says goes into a message, no further.
 */
#include "member/objects/store_backend.h"

#include "base/clock.h"
#include "base/units.h"
#include "http/client.h"
#include "http/target.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define PATIENCE_US (60 * SECOND_US)
#define ERROR_MAX   ((size_t)64 * 1024)
#define LISTING_MAX ((size_t)4 << 20) /* of a page of 1000 keys */
#define WORD_MAX    64

struct store_backend {
	struct object_location l; /* borrowed */
	const struct object_credentials *credentials;
	struct http_client *client;
	bool is_bare; /* the store knows no conditions */
};

struct call {
	const char *method, *name; /* NULL: the bucket itself, with a query */
	const char *query;
	const void *data;
	size_t len;
	bool is_new;
};

static int s3_open(const struct object_location *l, const struct object_credentials *c,
                   struct store_backend **ret)
{
	struct store_backend *b = xnew0(struct store_backend);

	b->l = *l;
	b->credentials = c;
	*ret = b;
	return 0;
}

static int connect_to(struct store_backend *b, struct store_fault *fault)
{
	struct err err = {0};

	if (b->client || http_client_open(b->l.url, &b->client, &err) == 0)
		return 0;
	return store_fail(fault, TROUBLE_STORE_UNREACHABLE, true, "%s", err.message);
}

/* The connection's state is not known any more. */
static int lost(struct store_backend *b, const struct err *err, struct store_fault *fault)
{
	const bool is_tls = strstr(err->message, "TLS with ") != NULL;

	http_client_close(take_ptr(b->client));
	return store_fail(fault, is_tls ? TROUBLE_STORE_UNTRUSTED : TROUBLE_STORE_UNREACHABLE,
	                  !is_tls, "%s", err->message);
}

static int send_call(struct store_backend *b, const struct call *call, struct store_fault *fault)
{
	auto_free char *path =
		call->name ? xasprintf("%s/%s", b->l.path, call->name) : xstrdup(b->l.root);
	auto_free char *target =
		call->query ? xasprintf("%s?%s", path, call->query) : xstrdup(path);
	char hash[OBJECT_HASH_SIZE], time[OBJECT_SIGN_TIME_SIZE], value[OBJECT_SIGN_SIZE];
	const struct http_field all[] = {
		{"host", b->l.host},
		{"if-none-match", call->is_new && !b->is_bare ? "*" : NULL},
		{"x-amz-content-sha256", hash},
		{"x-amz-date", time},
		{"x-amz-security-token", b->credentials->session},
	};
	struct http_field fields[ARRAY_SIZE(all) + 1];
	struct object_sign sign = {.credentials = b->credentials,
	                           .region = b->l.region,
	                           .service = "s3",
	                           .time = time,
	                           .method = call->method,
	                           .path = path,
	                           .query = call->query,
	                           .fields = fields,
	                           .content_hash = hash};
	struct http_send send = {.method = call->method,
	                         .path = target,
	                         .fields = fields + 1, /* the client sends Host */
	                         .data = call->data,
	                         .len = call->len};
	struct err err = {0};
	int r = connect_to(b, fault);

	if (r < 0)
		return r;
	object_hash(call->len ? call->data : "", call->len, hash);
	object_sign_time(clock_wall_us(), time);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].value)
			fields[sign.n_fields++] = all[i];
	if (object_sign(&sign, value) < 0)
		return store_fail(fault, TROUBLE_STORE_SETTING, false,
		                  "the keys or the prefix are too long to be signed");
	fields[sign.n_fields] = (struct http_field){"authorization", value};
	send.n_fields = sign.n_fields;
	http_client_set_deadline(b->client, clock_steady_us() + PATIENCE_US);
	r = http_client_send(b->client, &send, &err);
	return r < 0 ? lost(b, &err, fault) : 0;
}

/* What stands between two words of a text. */
static void word_between(const char *text, const char *before, char ret[WORD_MAX])
{
	const char *found = strstr(text, before);
	const char *at = found ? found + strlen(before) : text + strlen(text);
	size_t n = 0;

	while (n < WORD_MAX - 1 && *at > ' ' && *at < 127 && *at != '<' && *at != '"')
		ret[n++] = *at++;
	ret[n] = '\0';
}

static int refused(struct store_backend *b, const struct call *call, int status, const char *text,
                   struct store_fault *fault)
{
	static const struct {
		const char *code;
		enum trouble trouble;
		bool may_pass;
	} by_code[] = {
		{"NoSuchBucket", TROUBLE_STORE_MISSING, false},
		{"NoSuchKey", TROUBLE_STORE_ABSENT, false},
		{"InvalidAccessKeyId", TROUBLE_STORE_KEYS, false},
		{"SignatureDoesNotMatch", TROUBLE_STORE_KEYS, false},
		{"XAdminUserNotFound", TROUBLE_STORE_KEYS, false}, /* VersityGW's */
		{"InvalidToken", TROUBLE_STORE_KEYS, false},
		{"ExpiredToken", TROUBLE_STORE_KEYS, false},
		{"RequestTimeTooSkewed", TROUBLE_STORE_CLOCK, false},
		{"AuthorizationHeaderMalformed", TROUBLE_STORE_REGION, false},
		{"PermanentRedirect", TROUBLE_STORE_REGION, false},
		{"TemporaryRedirect", TROUBLE_STORE_REGION, false},
		{"IncorrectRegion", TROUBLE_STORE_REGION, false},
		{"QuotaExceeded", TROUBLE_STORE_FULL, false},
		{"XMinioStorageFull", TROUBLE_STORE_FULL, false},
	};
	char code[WORD_MAX], region[WORD_MAX];
	const char *said = http_client_header(b->client, "x-amz-bucket-region");

	word_between(text, "<Code>", code);
	word_between(text, "<Region>", region);
	for (size_t i = 0; i < ARRAY_SIZE(by_code); i++)
		if (strcmp(code, by_code[i].code) == 0)
			return store_fail(fault, by_code[i].trouble, by_code[i].may_pass,
			                  "%s says %d %s%s%.40s", b->l.url, status, code,
			                  said || region[0] ? "; the region is " : "",
			                  said ? said : region);
	if (status >= 300 && status < 400)
		return store_fail(fault, TROUBLE_STORE_REGION, false,
		                  "%s leads elsewhere (%d)%s%.40s", b->l.url, status,
		                  said ? "; the region is " : "", said ? said : "");
	if (status == 401 || status == 403)
		return store_fail(fault, TROUBLE_STORE_RIGHTS, false, "%s says %d %s", b->l.url,
		                  status, code);
	if (status == 404)
		return store_fail(fault,
		                  strcmp(call->method, "PUT") == 0 ? TROUBLE_STORE_MISSING
		                                                   : TROUBLE_STORE_ABSENT,
		                  false, "%s says 404 %s", b->l.url, code);
	if (status == 507)
		return store_fail(fault, TROUBLE_STORE_FULL, false, "%s says 507", b->l.url);
	return store_fail(fault, TROUBLE_STORE_UNREACHABLE,
	                  status >= 500 || status == 408 || status == 409 || status == 429,
	                  "%s says %d %s", b->l.url, status, code);
}

/* The status, its body in out; or -1. A body of another status is read as an error's. */
static int ask(struct store_backend *b, const struct call *call, int wanted, struct buf *out,
               struct store_fault *fault)
{
	auto_call(buf_done) struct buf text = BUF_INIT(ERROR_MAX);
	struct err err = {0};
	bool has_more;
	int status = 0;
	int r = send_call(b, call, fault);

	if (r < 0)
		return r;
	if (http_client_head(b->client, &status, &err) < 0)
		return lost(b, &err, fault);
	r = http_client_read_all(b->client, status == wanted && out ? out : &text);
	if (r == -E2BIG && status == wanted) {
		http_client_close(take_ptr(b->client));
		return store_fail(fault, TROUBLE_STORE_DAMAGED, true,
		                  "%s has sent more than an object has", b->l.url);
	}
	if (r < 0 && r != -E2BIG) {
		(void)err_set(&err, ERR_UNAVAILABLE, -r, "the answer of %s broke", b->l.url);
		return lost(b, &err, fault);
	}
	has_more = r == -E2BIG;
	if (status == wanted || (status == 412 && call->is_new))
		return status;
	if (status == 501 && call->is_new && !b->is_bare) {
		b->is_bare = true;
		return ask(b, call, wanted, out, fault);
	}
	r = refused(b, call, status, buf_str(&text), fault);
	if (has_more)
		http_client_close(take_ptr(b->client));
	return r;
}

static int s3_stat(struct store_backend *b, const char *name, uint64_t *ret_written_us,
                   struct store_fault *fault)
{
	const char *text;
	struct tm tm = {0};

	if (ask(b, &(struct call){.method = "HEAD", .name = name}, 200, NULL, fault) < 0)
		return -1;
	text = http_client_header(b->client, "last-modified");
	*ret_written_us = text && strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm)
	                          ? (uint64_t)MAX(timegm(&tm), 0) * SECOND_US
	                          : 0; /* it is not counted on */
	return 0;
}

static int s3_put(struct store_backend *b, const char *name, const void *data, size_t len,
                  bool is_new, uint64_t *ret_written_us, struct store_fault *fault)
{
	const struct call call = {
		.method = "PUT", .name = name, .data = data, .len = len, .is_new = is_new};
	int status = ask(b, &call, 200, NULL, fault);

	if (status != 412)
		return MIN(status, 0);
	return s3_stat(b, name, ret_written_us, fault) < 0 ? -1 : -EEXIST;
}

static int s3_get(struct store_backend *b, const char *name, struct buf *out,
                  struct store_fault *fault)
{
	const size_t before = out->len;
	int status = ask(b, &(struct call){.method = "GET", .name = name}, 200, out, fault);

	if (status < 0)
		buf_truncate(out, before);
	return MIN(status, 0);
}

static int s3_remove(struct store_backend *b, const char *name, struct store_fault *fault)
{
	return MIN(ask(b, &(struct call){.method = "DELETE", .name = name}, 204, NULL, fault), 0);
}

struct listing {
	const char *keys, *folder, *behind; /* of the bucket; behind: the last key of before */
	object_entry_fn fn;
	void *arg;
};

/* Keys come in their order, each behind the one before it: else a listing would never end. */
static int on_listed(const struct object_entry *one, void *arg)
{
	const struct listing *l = arg;
	const size_t len = strlen(l->keys);
	struct object_entry named = *one;

	if (strncmp(one->key, l->keys, len) != 0 ||
	    strncmp(one->key + len, l->folder, strlen(l->folder)) != 0 ||
	    strcmp(one->key + len, l->behind) <= 0)
		return -EPROTO;
	named.key = one->key + len;
	return l->fn(&named, l->arg);
}

static int put_query(const struct store_backend *b, const char *folder, const char *at,
                     struct buf *out)
{
	int r = buf_append_str(out, "list-type=2&max-keys=1000&prefix=");

	if (r == 0)
		r = http_escape(out, b->l.keys);
	if (r == 0)
		r = http_escape(out, folder);
	if (r == 0 && at[0])
		r = buf_append_str(out, "&start-after=");
	if (r == 0 && at[0])
		r = http_escape(out, b->l.keys);
	return r == 0 && at[0] ? http_escape(out, at) : r;
}

static int s3_list(struct store_backend *b, const char *folder, char at[STORE_AT_SIZE],
                   object_entry_fn fn, void *arg, struct store_fault *fault)
{
	auto_call(buf_done) struct buf text = BUF_INIT(LISTING_MAX), query = BUF_INIT(8192);
	struct listing l = {
		.keys = b->l.keys, .folder = folder, .behind = at, .fn = fn, .arg = arg};
	struct call call = {.method = "GET"};
	char last[OBJECT_KEY_MAX + 1];
	int r = put_query(b, folder, at, &query);

	if (r < 0)
		return store_fail(fault, TROUBLE_STORE_SETTING, false, "the prefix is too long");
	call.query = buf_str(&query);
	if (ask(b, &call, 200, &text, fault) < 0)
		return -1;
	if (strlen(buf_str(&text)) != text.len)
		r = -EPROTO;
	if (r == 0)
		r = object_listing_read(text.data, on_listed, &l, last);
	if (r < 0)
		return store_fail(fault, TROUBLE_STORE_DAMAGED, true,
		                  "%s lists what was not asked for", b->l.url);
	at[0] = '\0';
	if (r > 0)
		(void)snprintf(at, STORE_AT_SIZE, "%s", last + strlen(b->l.keys));
	return 0;
}

const struct store_kind store_s3 = {
	.open = s3_open,
	.put = s3_put,
	.get = s3_get,
	.stat = s3_stat,
	.remove = s3_remove,
	.list = s3_list,
};
