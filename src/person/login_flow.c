// SPDX-License-Identifier: Apache-2.0
#include "person/login_flow.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "http/target.h"
#include "net/match/url.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#define STATE_LABEL      "login.state"
#define DEVICE_LABEL     "login.device"
#define RANDOM_BYTES     32
#define RANDOM_SIZE      base64_size(RANDOM_BYTES)
#define DEVICE_GRANT     "urn:ietf:params:oauth:grant-type:device_code"
#define DEVICE_S_MAX     1800
#define INTERVAL_S_MAX   60
#define USER_CODE_MAX    64
#define FORM_MAX         16384
#define URL_MAX          8192
#define NO_EXPIRY_TOLD_S 300

struct login_flow {
	struct login_flow_config config;
	struct master_keys seal; /* one key, of this process */
};

struct flight { /* a call that waits for the provider */
	struct login_flow *flow;
	login_fn fn;
	void *arg;
	enum person_session_kind kind;
	char *redirect_url;
	char verifier[RANDOM_SIZE]; /* of a device */
};

struct login_flow *login_flow_new(const struct login_flow_config *config)
{
	struct login_flow *flow = xnew0(struct login_flow);

	flow->config = *config;
	flow->seal.n = 1;
	random_bytes(flow->seal.of[0], MASTER_KEY_SIZE);
	(void)snprintf(flow->seal.ids[0], MASTER_KEY_ID_SIZE, "%016x", 0U);
	return flow;
}

void login_flow_free(struct login_flow *flow)
{
	if (flow)
		master_keys_done(&flow->seal);
	free(flow);
}

const char *login_flow_name(const struct login_flow *flow)
{
	return flow->config.name;
}

struct person_sessions *login_flow_sessions(const struct login_flow *flow)
{
	return flow->config.sessions;
}

struct provider *login_flow_provider(const struct login_flow *flow)
{
	return flow->config.provider;
}

static struct flight *take_off(struct login_flow *flow, enum person_session_kind kind, login_fn fn,
                               void *arg)
{
	struct flight *f = xnew0(struct flight);

	*f = (struct flight){.flow = flow, .fn = fn, .arg = arg, .kind = kind};
	return f;
}

static void land(struct flight *f, const struct login_step *step)
{
	if (step->problem != LOGIN_FINE && step->problem != LOGIN_PENDING)
		log_info("login.failed", "problem=%s detail='%s'",
		         login_problem_word(step->problem), step->detail ? step->detail : "");
	f->fn(step, f->arg);
	free(f->redirect_url);
	OPENSSL_cleanse(f->verifier, sizeof(f->verifier));
	free(f);
}

static void land_with(struct flight *f, enum login_problem problem, const char *detail)
{
	land(f, &(struct login_step){.problem = problem, .detail = detail});
}

/* A question that fails before it is asked is answered later, too: by asking nothing. */
struct late_problem {
	struct flight *flight;
	enum login_problem problem;
};

static void on_late(const struct provider_answer *answer, void *arg)
{
	struct late_problem *late = arg;

	(void)answer;
	land_with(late->flight, late->problem, "");
	free(late);
}

static void land_later(struct flight *f, enum login_problem problem)
{
	struct late_problem *late = xnew0(struct late_problem);

	*late = (struct late_problem){f, problem};
	provider_ask(f->flow->config.provider, &(struct provider_question){0}, on_late, late);
}

/* "name=value&…" from pairs; NULL if it does not fit. */
static char *form_of(const char *const (*pairs)[2], size_t n, size_t max)
{
	auto_call(buf_done) struct buf out = BUF_INIT(max);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		r = buf_printf(&out, "%s%s=", i > 0 ? "&" : "", pairs[i][0]);
		if (r == 0)
			r = http_escape(&out, pairs[i][1]);
	}
	return r < 0 ? NULL : xstrdup(buf_str(&out));
}

static void make_random(char ret[RANDOM_SIZE])
{
	unsigned char raw[RANDOM_BYTES];

	random_bytes(raw, sizeof(raw));
	(void)base64url_encode(raw, sizeof(raw), ret);
	OPENSSL_cleanse(raw, sizeof(raw));
}

static char *seal(const struct login_flow *flow, const char *label, json_t *object)
{
	auto_json json_t *owned = object;
	auto_free char *text = json_dumps(owned, JSON_COMPACT);
	char *sealed = text ? sealed_text_make(&flow->seal, label, text, strlen(text)) : NULL;

	if (text)
		OPENSSL_cleanse(text, strlen(text));
	return sealed;
}

/* What was sealed and is not too old; NULL. */
static json_t *open_seal(const struct login_flow *flow, const char *label, const char *sealed)
{
	char *text = NULL;
	bool is_stale;
	json_t *object;

	if (!sealed || !sealed_text_is(sealed) ||
	    sealed_text_open(&flow->seal, label, sealed, &text, &is_stale) < 0)
		return NULL;
	object = json_loads(text, 0, NULL);
	sealed_text_wipe(&text);
	if ((uint64_t)json_integer_value(json_object_get(object, "until_us")) > clock_wall_us())
		return object;
	json_decref(object);
	return NULL;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

/* Start: to the provider. */

static void challenge_of(const char *verifier, char ret[RANDOM_SIZE])
{
	unsigned char hash[32];

	if (EVP_Digest(verifier, strlen(verifier), hash, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* only on no memory */
	(void)base64url_encode(hash, sizeof(hash), ret);
}

static bool wants_refresh(const char *scopes)
{
	return strstr(scopes, "offline_access") != NULL;
}

static char *authorization_url(const struct login_flow *flow, const char *redirect_url,
                               const char *state, const char *nonce, const char *verifier)
{
	const char *endpoint = provider_metadata(flow->config.provider)->authorization_endpoint;
	char challenge[RANDOM_SIZE];
	auto_free char *form = NULL;
	/* Without consent, a provider may give no refresh token (OpenID Connect Core, 11). */
	const bool has_prompt = wants_refresh(flow->config.scopes);
	const char *const pairs[][2] = {
		{"response_type", "code"},
		{"client_id", provider_client_id(flow->config.provider)},
		{"redirect_uri", redirect_url},
		{"scope", flow->config.scopes},
		{"state", state},
		{"nonce", nonce},
		{"code_challenge", challenge},
		{"code_challenge_method", "S256"},
		{"prompt", "consent"},
	};

	challenge_of(verifier, challenge);
	form = form_of(pairs, ARRAY_SIZE(pairs) - !has_prompt, URL_MAX);
	return form ? xasprintf("%s%s%s", endpoint, strchr(endpoint, '?') ? "&" : "?", form) : NULL;
}

static void on_metadata(const struct provider_answer *answer, void *arg)
{
	struct flight *f = arg;
	char state[RANDOM_SIZE], nonce[RANDOM_SIZE], verifier[RANDOM_SIZE];
	const uint64_t until_us = clock_wall_us() + LOGIN_FLOW_US;
	auto_free char *url = NULL, *sealed = NULL;

	if (answer->problem != LOGIN_FINE) {
		land_with(f, answer->problem, answer->detail);
		return;
	}
	make_random(state);
	make_random(nonce);
	make_random(verifier);
	url = authorization_url(f->flow, f->redirect_url, state, nonce, verifier);
	sealed = seal(f->flow, STATE_LABEL,
	              json_pack("{s:s, s:s, s:s, s:I}", "state", state, "nonce", nonce, "verifier",
	                        verifier, "until_us", (json_int_t)until_us));
	OPENSSL_cleanse(verifier, sizeof(verifier));
	if (url && sealed)
		land(f, &(struct login_step){.url = url, .sealed = sealed});
	else
		land_with(f, LOGIN_BAD_ANSWER, "the address is too long");
}

void login_flow_start(struct login_flow *flow, const char *redirect_url, login_fn fn, void *arg)
{
	struct flight *f = take_off(flow, SESSION_BROWSER, fn, arg);

	f->redirect_url = xstrdup(redirect_url);
	provider_ask(flow->config.provider, &(struct provider_question){0}, on_metadata, f);
}

/* Finish: from the provider. */

static void on_token(const struct provider_answer *answer, void *arg)
{
	struct flight *f = arg;
	struct login_step step = {.problem = answer->problem,
	                          .detail = answer->detail,
	                          .is_slow_down = answer->is_slow_down};
	char token[SESSION_TOKEN_SIZE] = "";
	struct err err = {0};

	if (step.problem == LOGIN_FINE) {
		const struct person_proof proof = {
			.claims = answer->claims,
			.token = answer->token,
			.refresh =
				json_string_value(json_object_get(answer->body, "refresh_token")),
		};

		step.problem = person_session_begin(f->flow->config.sessions, &proof, f->kind,
		                                    token, &step.session, &err);
		step.detail = err.message;
		step.token = token;
	}
	land(f, &step);
	OPENSSL_cleanse(token, sizeof(token));
}

static bool is_same(const char *a, const char *b)
{
	return a && b && *a && strlen(a) == strlen(b) && CRYPTO_memcmp(a, b, strlen(a)) == 0;
}

/* An answer that another provider was tricked into (RFC 9207). */
static bool is_mixed_up(const struct provider *p, const char *iss)
{
	const struct provider_metadata *m = provider_metadata(p);

	return iss ? strcmp(iss, provider_issuer(p)) != 0 : m && m->has_iss;
}

static enum login_problem check_return(const struct login_flow *flow,
                                       const struct login_return *back, const json_t *begun)
{
	if (!begun || !is_same(text_of(begun, "state"), back->state))
		return LOGIN_STATE;
	if (is_mixed_up(flow->config.provider, back->iss))
		return LOGIN_ISSUER;
	if (back->error)
		return LOGIN_DENIED;
	return back->code ? LOGIN_FINE : LOGIN_BAD_ANSWER;
}

void login_flow_finish(struct login_flow *flow, const struct login_return *back, login_fn fn,
                       void *arg)
{
	struct flight *f = take_off(flow, SESSION_BROWSER, fn, arg);
	auto_json json_t *begun = open_seal(flow, STATE_LABEL, back->sealed);
	enum login_problem problem = check_return(flow, back, begun);
	const char *const pairs[][2] = {
		{"grant_type", "authorization_code"},
		{"code", back->code ? back->code : ""},
		{"redirect_uri", back->redirect_url},
		{"code_verifier", text_of(begun, "verifier")},
	};
	auto_free char *form = form_of(pairs, ARRAY_SIZE(pairs), FORM_MAX);

	if (problem == LOGIN_FINE && !form)
		problem = LOGIN_BAD_ANSWER;
	if (problem != LOGIN_FINE) {
		land_later(f, problem);
		return;
	}
	provider_ask(flow->config.provider,
	             &(struct provider_question){.endpoint = PROVIDER_TOKEN,
	                                         .form = form,
	                                         .nonce = text_of(begun, "nonce"),
	                                         .is_token_needed = true},
	             on_token, f);
	OPENSSL_cleanse(form, strlen(form));
}

/* The device flow. RFC 8628 knows no PKCE; a provider that asks a client for it, as Keycloak can,
 * asks here too, and others ignore what they do not know. */

static uint64_t seconds_of(const json_t *body, const char *name, uint64_t usual, uint64_t max)
{
	const json_t *value = json_object_get(body, name);
	double seconds = json_number_value(value);

	if (!json_is_number(value) || !(seconds >= 1))
		return usual;
	return seconds > (double)max ? max : (uint64_t)seconds;
}

static bool is_shown_fine(const char *text, size_t max)
{
	size_t len = strlen(text);

	if (len == 0 || len > max)
		return false;
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p > '~')
			return false;
	return true;
}

/* An address that a person is sent to, and that is printed to a terminal. */
static bool is_place(const char *text)
{
	const char *why = NULL;
	struct url url;

	return is_shown_fine(text, PROVIDER_URL_MAX) &&
	       url_parse(text, strlen(text), &url, &why) == 0 &&
	       (url.scheme == URL_HTTP || url.scheme == URL_HTTPS);
}

static void on_device(const struct provider_answer *answer, void *arg)
{
	struct flight *f = arg;
	const json_t *body = answer->body;
	const char *code = text_of(body, "device_code");
	const char *whole = text_of(body, "verification_uri_complete");
	struct login_step step = {.problem = answer->problem, .detail = answer->detail};
	auto_free char *sealed = NULL;

	if (step.problem != LOGIN_FINE) {
		land(f, &step);
		return;
	}
	step.device.user_code = text_of(body, "user_code");
	step.device.url = text_of(body, "verification_uri");
	step.device.whole_url = is_place(whole) ? whole : NULL;
	step.device.interval_s = seconds_of(body, "interval", 5, INTERVAL_S_MAX);
	step.device.expires_us =
		clock_wall_us() +
		seconds_of(body, "expires_in", NO_EXPIRY_TOLD_S, DEVICE_S_MAX) * SECOND_US;
	if (!*code || !is_shown_fine(step.device.user_code, USER_CODE_MAX) ||
	    !is_place(step.device.url)) {
		land_with(f, LOGIN_BAD_ANSWER, "its answer to a device lacks something");
		return;
	}
	sealed = seal(f->flow, DEVICE_LABEL,
	              json_pack("{s:s, s:s, s:I}", "code", code, "verifier", f->verifier,
	                        "until_us", (json_int_t)step.device.expires_us));
	step.device.sealed = sealed;
	if (sealed)
		land(f, &step);
	else
		land_with(f, LOGIN_BAD_ANSWER, "its device code is too long");
}

void login_flow_device(struct login_flow *flow, login_fn fn, void *arg)
{
	struct flight *f = take_off(flow, SESSION_CLIENT, fn, arg);
	char challenge[RANDOM_SIZE];
	const bool has_prompt = wants_refresh(flow->config.scopes);
	const char *const pairs[][2] = {
		{"scope", flow->config.scopes},
		{"code_challenge", challenge},
		{"code_challenge_method", "S256"},
		{"prompt", "consent"},
	};
	auto_free char *form = NULL;

	make_random(f->verifier);
	challenge_of(f->verifier, challenge);
	form = form_of(pairs, ARRAY_SIZE(pairs) - !has_prompt, FORM_MAX);
	provider_ask(
		flow->config.provider,
		&(struct provider_question){.endpoint = PROVIDER_DEVICE, .form = form ? form : ""},
		on_device, f);
}

void login_flow_poll(struct login_flow *flow, const char *sealed, login_fn fn, void *arg)
{
	struct flight *f = take_off(flow, SESSION_CLIENT, fn, arg);
	auto_json json_t *begun = open_seal(flow, DEVICE_LABEL, sealed);
	const char *const pairs[][2] = {
		{"grant_type", DEVICE_GRANT},
		{"device_code", text_of(begun, "code")},
		{"code_verifier", text_of(begun, "verifier")},
	};
	auto_free char *form = begun ? form_of(pairs, ARRAY_SIZE(pairs), FORM_MAX) : NULL;

	if (!form) {
		land_later(f, LOGIN_TOO_LATE);
		return;
	}
	provider_ask(flow->config.provider,
	             &(struct provider_question){
			     .endpoint = PROVIDER_TOKEN, .form = form, .is_token_needed = true},
	             on_token, f);
}

/* Ends. */

static void on_logout(const struct provider_answer *answer, void *arg)
{
	struct flight *f = arg;
	struct login_step step = {.problem = answer->problem, .detail = answer->detail};

	if (step.problem == LOGIN_FINE)
		step.n_ended =
			person_sessions_end_of(f->flow->config.sessions, answer->token.subject,
		                               answer->token.sid, "the provider");
	land(f, &step);
}

void login_flow_end(struct login_flow *flow, const char *logout_token, login_fn fn, void *arg)
{
	provider_check_logout(flow->config.provider, logout_token, on_logout,
	                      take_off(flow, SESSION_BROWSER, fn, arg));
}

static void on_revoked(const struct provider_answer *answer, void *arg)
{
	(void)arg;
	if (answer->problem != LOGIN_FINE)
		log_info("login.not_revoked", "detail='%s'", answer->detail);
}

void login_flow_leave(struct login_flow *flow, struct person_session *s)
{
	char *refresh = NULL;

	person_session_refresh_token(flow->config.sessions, s, &refresh);
	person_session_end(flow->config.sessions, s, "logged out");
	if (refresh) {
		const char *const pairs[][2] = {{"token", refresh},
		                                {"token_type_hint", "refresh_token"}};
		auto_free char *form = form_of(pairs, ARRAY_SIZE(pairs), FORM_MAX);

		if (form)
			provider_ask(flow->config.provider,
			             &(struct provider_question){.endpoint = PROVIDER_REVOCATION,
			                                         .form = form},
			             on_revoked, NULL);
	}
	sealed_text_wipe(&refresh);
}
