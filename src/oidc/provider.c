// SPDX-License-Identifier: Apache-2.0
/*
 * A question is a task that goes as far as it can: each of metadata and keys is fetched by one call
 * for all tasks that wait for it. What a provider sends is bounded, and its words are logged, not
 * shown.
 */
#include "oidc/provider.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/units.h"
#include "http/target.h"
#include "oidc/jws.h"

#include <openssl/crypto.h>
#include <string.h>

#define TASKS_MAX        64
#define METADATA_MAX     ((size_t)64 * 1024)
#define ANSWER_MAX       ((size_t)128 * 1024)
#define ANSWER_VALUES    4096
#define METADATA_AGE_US  (3600 * SECOND_US)
#define KEYS_AGE_US      (600 * SECOND_US) /* so long a key that was withdrawn is still taken */
#define KEYS_PAUSE_US    (10 * SECOND_US)  /* between two fetches because of unknown ids */
#define FAILURE_PAUSE_US SECOND_US

enum document { METADATA, KEYS };

struct task {
	struct list link;
	struct provider *provider;
	struct provider_question question;
	char *form, *nonce;
	char *logout_token; /* instead of a question */
	provider_fn fn;
	void *arg;
	bool is_new;          /* not begun yet */
	bool waits;           /* for a document */
	bool has_asked_again; /* for the keys */
	struct outgoing_call *call;
	json_t *body;
	struct jws jws;
};

struct provider {
	struct provider_config config;
	struct provider_metadata metadata;
	struct jwks *keys;
	uint64_t metadata_us, keys_us, failed_us; /* steady; 0: not yet */
	uint64_t silent_us;                       /* wall */
	char why[200];
	enum document fetching;
	struct outgoing_call *fetch; /* NULL: none */
	struct loop_timer *start;    /* begins what is new */
	struct list tasks;
	size_t n_tasks;
};

static void step(struct task *t);
static void begin(struct loop *loop, void *arg);

static uint64_t now_us(const struct provider *p)
{
	return loop_now_us(p->config.outgoing->loop);
}

struct provider *provider_new(const struct provider_config *config)
{
	struct provider *p = xnew0(struct provider);

	p->config = *config;
	p->config.issuer = xstrdup(config->issuer);
	p->config.client_id = xstrdup(config->client_id);
	p->config.client_secret = config->client_secret ? xstrdup(config->client_secret) : NULL;
	list_init(&p->tasks);
	p->start = loop_timer_new(p->config.outgoing->loop, begin, p);
	return p;
}

static void task_free(struct task *t)
{
	list_remove(&t->link);
	t->provider->n_tasks--;
	outgoing_call_free(t->call);
	json_decref(t->body);
	jws_done(&t->jws);
	if (t->form)
		OPENSSL_cleanse(t->form, strlen(t->form));
	free(t->form);
	free(t->nonce);
	free(t->logout_token);
	free(t);
}

static void tell(struct task *t, struct provider_answer *answer)
{
	if (!answer->detail)
		answer->detail = "";
	t->fn(answer, t->arg);
	task_free(t);
}

static void fail(struct task *t, enum login_problem problem, const char *detail)
{
	tell(t, &(struct provider_answer){.problem = problem, .detail = detail});
}

void provider_free(struct provider *p)
{
	if (!p)
		return;
	outgoing_call_free(p->fetch);
	loop_timer_free(p->start);
	list_for_each (&p->tasks, struct task, t, link)
		fail(t, LOGIN_UNREACHABLE, "the daemon ends");
	provider_metadata_done(&p->metadata);
	jwks_free(p->keys);
	if (p->config.client_secret)
		OPENSSL_cleanse(unconst(p->config.client_secret), strlen(p->config.client_secret));
	free(unconst(p->config.client_secret));
	free(unconst(p->config.issuer));
	free(unconst(p->config.client_id));
	free(p);
}

const struct provider_metadata *provider_metadata(const struct provider *p)
{
	return p->metadata_us ? &p->metadata : NULL;
}

const char *provider_issuer(const struct provider *p)
{
	return p->config.issuer;
}

const char *provider_client_id(const struct provider *p)
{
	return p->config.client_id;
}

uint64_t provider_silent_us(const struct provider *p, const char **ret_why)
{
	*ret_why = p->why;
	return p->silent_us;
}

static void note_silence(struct provider *p, const char *why)
{
	(void)snprintf(p->why, sizeof(p->why), "%s", why);
	if (p->silent_us == 0) {
		p->silent_us = clock_wall_us();
		log_warn("login.provider_silent", "issuer='%s' why='%s'", p->config.issuer, why);
	}
}

static void note_word(struct provider *p)
{
	if (p->silent_us != 0)
		log_info("login.provider_back", "issuer='%s'", p->config.issuer);
	p->silent_us = 0;
	p->why[0] = '\0';
}

/* Metadata and keys. */

static int take_document(struct provider *p, const struct outgoing_reply *reply, struct err *err)
{
	struct provider_metadata metadata = {0};
	struct jwks *keys = NULL;
	int r;

	if (p->fetching == METADATA) {
		r = provider_metadata_parse(reply->body, reply->len, p->config.issuer, &metadata,
		                            err);
		if (r < 0)
			return r;
		provider_metadata_done(&p->metadata);
		p->metadata = metadata;
		p->metadata_us = now_us(p);
		return 0;
	}
	r = jwks_parse(reply->body, reply->len, &keys, err);
	if (r < 0)
		return r;
	jwks_free(p->keys);
	p->keys = keys;
	p->keys_us = now_us(p);
	return 0;
}

static void wake(struct provider *p, enum login_problem problem, const char *detail)
{
	list_for_each (&p->tasks, struct task, t, link) {
		if (!t->waits)
			continue;
		t->waits = false;
		if (problem == LOGIN_FINE)
			step(t);
		else
			fail(t, problem, detail);
	}
}

static void on_document(const struct outgoing_reply *reply, void *arg)
{
	struct provider *p = arg;
	struct err err = {0};
	char text[96];

	outgoing_call_free(take_ptr(p->fetch));
	if (reply->status == 200 && take_document(p, reply, &err) == 0) {
		note_word(p);
		wake(p, LOGIN_FINE, NULL);
		return;
	}
	(void)snprintf(text, sizeof(text), "%s: status %d",
	               p->fetching == METADATA ? "metadata" : "keys", reply->status);
	p->failed_us = now_us(p);
	if (reply->status == 200)
		note_silence(p, err.message);
	else
		note_silence(p, reply->status ? text : reply->why);
	wake(p, reply->status == 200 ? LOGIN_BAD_ANSWER : LOGIN_UNREACHABLE, p->why);
}

/* The document is fetched, and the task waits for it. */
static void fetch(struct task *t, enum document what)
{
	struct provider *p = t->provider;
	auto_free char *url = NULL;
	const struct http_field fields[] = {{"Accept", "application/json"}};
	const size_t len = strlen(p->config.issuer);
	const bool has_slash = len > 0 && p->config.issuer[len - 1] == '/';

	if (!p->fetch && p->failed_us && now_us(p) - p->failed_us < FAILURE_PAUSE_US) {
		fail(t, LOGIN_UNREACHABLE, p->why);
		return;
	}
	t->waits = true;
	if (p->fetch)
		return; /* if it is the other document, step() asks again */
	p->fetching = what;
	url = what == METADATA ? xasprintf("%s%s.well-known/openid-configuration", p->config.issuer,
	                                   has_slash ? "" : "/")
	                       : xstrdup(p->metadata.jwks_uri);
	p->fetch = outgoing_call_new(
		p->config.outgoing,
		&(struct outgoing_request){.method = "GET",
	                                   .url = url,
	                                   .fields = fields,
	                                   .n_fields = ARRAY_SIZE(fields),
	                                   .reply_max =
	                                           what == METADATA ? METADATA_MAX : JWKS_TEXT_MAX},
		on_document, p);
}

/* The question itself. */

static const struct {
	const char *error;
	enum login_problem problem;
} errors[] = {
	{"authorization_pending", LOGIN_PENDING}, {"slow_down", LOGIN_PENDING},
	{"access_denied", LOGIN_DENIED},          {"invalid_grant", LOGIN_DENIED},
	{"expired_token", LOGIN_TOO_LATE},
};

static void refused(struct task *t, int status)
{
	const char *error = json_string_value(json_object_get(t->body, "error"));
	struct provider_answer answer = {.problem = LOGIN_BAD_ANSWER};
	char detail[160];

	for (size_t i = 0; error && i < ARRAY_SIZE(errors); i++)
		if (strcmp(error, errors[i].error) == 0)
			answer.problem = errors[i].problem;
	answer.is_slow_down = error && strcmp(error, "slow_down") == 0;
	(void)snprintf(detail, sizeof(detail), "status %d, error '%.80s'", status,
	               error ? error : "");
	answer.detail = detail;
	tell(t, &answer);
}

static void on_reply(const struct outgoing_reply *reply, void *arg)
{
	struct task *t = arg;
	struct provider *p = t->provider;
	const char *token;
	char text[64];

	outgoing_call_free(take_ptr(t->call));
	(void)snprintf(text, sizeof(text), "status %d", reply->status);
	if (reply->status == 0 || reply->status >= 500) {
		note_silence(p, reply->status ? text : reply->why);
		fail(t, LOGIN_UNREACHABLE, reply->status ? text : reply->why);
		return;
	}
	note_word(p);
	if (t->question.endpoint == PROVIDER_REVOCATION && reply->status == 200) {
		tell(t, &(struct provider_answer){0});
		return;
	}
	if (json_parse_up_to(reply->body ? reply->body : "", reply->len, ANSWER_VALUES, &t->body,
	                     NULL) < 0 ||
	    !json_is_object(t->body)) {
		fail(t, LOGIN_BAD_ANSWER, text);
		return;
	}
	if (reply->status != 200) {
		refused(t, reply->status);
		return;
	}
	token = json_string_value(json_object_get(t->body, "id_token"));
	if (!token && t->question.is_token_needed)
		fail(t, LOGIN_BAD_ANSWER, "there is no id_token");
	else if (!token)
		tell(t, &(struct provider_answer){.body = t->body});
	else
		step(t);
}

/* Who we are: in a header (RFC 6749, 2.3.1: each part is form-encoded first), or in the body. */
static int put_client(const struct provider *p, struct buf *form, char **ret_header)
{
	auto_call(buf_done) struct buf pair = BUF_INIT(4096);
	const char *secret = p->config.client_secret;
	int r = 0;

	*ret_header = NULL;
	if (!secret || p->metadata.wants_secret_in_body) {
		r = buf_append(form, "&client_id=", strlen("&client_id="));
		if (r == 0)
			r = http_escape(form, p->config.client_id);
		if (r == 0 && secret)
			r = buf_append(form, "&client_secret=", strlen("&client_secret="));
		return r == 0 && secret ? http_escape(form, secret) : r;
	}
	r = http_escape(&pair, p->config.client_id);
	if (r == 0)
		r = buf_append(&pair, ":", 1);
	if (r == 0)
		r = http_escape(&pair, secret);
	if (r < 0)
		return r;
	*ret_header = xcalloc(1, strlen("Basic ") + base64_size(pair.len));
	memcpy(*ret_header, "Basic ", strlen("Basic "));
	(void)base64_encode(pair.data, pair.len, *ret_header + strlen("Basic "));
	return 0;
}

static const char *endpoint_url(const struct provider *p, enum provider_endpoint endpoint)
{
	const char *const urls[] = {
		[PROVIDER_TOKEN] = p->metadata.token_endpoint,
		[PROVIDER_DEVICE] = p->metadata.device_endpoint,
		[PROVIDER_REVOCATION] = p->metadata.revocation_endpoint,
	};

	return urls[endpoint];
}

static void send(struct task *t)
{
	struct provider *p = t->provider;
	const char *url = endpoint_url(p, t->question.endpoint);
	auto_call(buf_done) struct buf form = BUF_INIT(32768);
	auto_free char *header = NULL;
	struct http_field fields[3] = {{"Content-Type", "application/x-www-form-urlencoded"},
	                               {"Accept", "application/json"}};

	if (!url) {
		fail(t, LOGIN_BAD_ANSWER, "the provider has no such endpoint");
		return;
	}
	if (buf_append(&form, t->form, strlen(t->form)) < 0 || put_client(p, &form, &header) < 0) {
		fail(t, LOGIN_BAD_ANSWER, "the request is too long");
		return;
	}
	fields[2] = (struct http_field){"Authorization", header};
	t->call = outgoing_call_new(p->config.outgoing,
	                            &(struct outgoing_request){.method = "POST",
	                                                       .url = url,
	                                                       .fields = fields,
	                                                       .n_fields = header ? 3 : 2,
	                                                       .body = form.data,
	                                                       .len = form.len,
	                                                       .reply_max = ANSWER_MAX},
	                            on_reply, t);
	OPENSSL_cleanse(form.data, form.len);
	if (header)
		OPENSSL_cleanse(header, strlen(header));
}

/* The token. */

static void check_claims(struct task *t)
{
	const struct provider *p = t->provider;
	const struct id_token_rules rules = {.issuer = p->config.issuer,
	                                     .client_id = p->config.client_id,
	                                     .nonce = t->nonce,
	                                     .now_s = clock_wall_us() / SECOND_US};
	struct provider_answer answer = {.body = t->body, .claims = t->jws.payload};

	if (t->logout_token)
		answer.problem =
			logout_token_check(t->jws.payload, t->jws.type, &rules, &answer.token);
	else
		answer.problem = id_token_check(t->jws.payload, t->jws.type, &rules, &answer.token);
	tell(t, &answer);
}

static void check_token(struct task *t)
{
	struct provider *p = t->provider;
	const char *text = t->logout_token
	                           ? t->logout_token
	                           : json_string_value(json_object_get(t->body, "id_token"));
	struct err err = {0};
	int r;

	jws_done(&t->jws);
	if (jws_parse(text, strlen(text), &t->jws, &err) < 0) {
		fail(t, LOGIN_SIGNATURE, err.message);
		return;
	}
	if (!p->keys || now_us(p) - p->keys_us >= KEYS_AGE_US) {
		fetch(t, KEYS);
		return;
	}
	r = jws_verify(&t->jws, text, p->keys, &err);
	if (r == -ENOKEY && !t->has_asked_again && now_us(p) - p->keys_us >= KEYS_PAUSE_US) {
		t->has_asked_again = true;
		fetch(t, KEYS);
		return;
	}
	if (r < 0)
		fail(t, LOGIN_SIGNATURE, err.message);
	else
		check_claims(t);
}

static void step(struct task *t)
{
	struct provider *p = t->provider;

	if (!p->metadata_us || now_us(p) - p->metadata_us >= METADATA_AGE_US)
		fetch(t, METADATA);
	else if (t->logout_token || t->body)
		check_token(t);
	else if (t->question.endpoint == PROVIDER_NONE)
		tell(t, &(struct provider_answer){0});
	else
		send(t);
}

static void begin(struct loop *loop, void *arg)
{
	struct provider *p = arg;

	(void)loop;
	list_for_each (&p->tasks, struct task, t, link) {
		if (!t->is_new)
			continue;
		t->is_new = false;
		if (p->n_tasks > TASKS_MAX)
			fail(t, LOGIN_BUSY, "too many");
		else
			step(t);
	}
}

static struct task *add(struct provider *p, provider_fn fn, void *arg)
{
	struct task *t = xnew0(struct task);

	t->provider = p;
	t->fn = fn;
	t->arg = arg;
	list_append(&p->tasks, &t->link);
	p->n_tasks++;
	t->is_new = true;
	loop_timer_set_in(p->start, 0);
	return t;
}

void provider_ask(struct provider *p, const struct provider_question *question, provider_fn fn,
                  void *arg)
{
	struct task *t = add(p, fn, arg);

	t->question = *question;
	t->question.form = t->question.nonce = NULL;
	t->form = question->form ? xstrdup(question->form) : NULL;
	t->nonce = question->nonce ? xstrdup(question->nonce) : NULL;
}

void provider_check_logout(struct provider *p, const char *token, provider_fn fn, void *arg)
{
	add(p, fn, arg)->logout_token = xstrdup(token);
}
