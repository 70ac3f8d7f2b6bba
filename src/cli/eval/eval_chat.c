// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: the conversation is kept here as the provider's own messages and sent whole
 * each time. A provider that is busy (429, 5xx) is asked again a few times, as long as the case's
 * time allows; all else that it refuses ends the run, with its own words.
 */
#include "cli/eval/eval_chat.h"

#include "base/clock.h"
#include "base/parse.h"
#include "cli/eval/eval_wire.h"
#include "cli/frame/command.h"

#include <string.h>
#include <time.h>

#define REPLY_MAX   (8 * 1024 * 1024)
#define TRIES       4
#define WAIT_MS     1000 /* doubled each time */
#define WAIT_MAX_MS 30000

struct chat {
	const struct eval_wire *wire;
	const struct eval_model *model;
	struct http_client *client;
	char *path;
	char *key; /* the header's value, or NULL */
	json_t *body, *messages;
	uint64_t deadline_us;
	struct chat_tokens tokens;
};

void chat_close(struct chat *c)
{
	if (!c)
		return;
	http_client_close(c->client);
	json_decref(c->body);
	json_decref(c->messages);
	free(c->path);
	free(c->key);
	free(c);
}

void chat_turn_done(struct chat_turn *turn)
{
	for (size_t i = 0; i < turn->n_calls; i++) {
		free(turn->calls[i].id);
		free(turn->calls[i].language);
		free(turn->calls[i].code);
	}
	free(turn->calls);
	free(turn->text);
	*turn = (struct chat_turn){0};
}

struct chat_tokens chat_tokens(const struct chat *c)
{
	return c->tokens;
}

void chat_answer(struct chat *c, const char *id, const char *text)
{
	c->wire->answer(c->messages, id, text);
}

/* "https://host:port/v1/" is where to connect, and the beginning of the path. */
static int connect_to(struct chat *c, const char *url, struct err *err)
{
	const char *scheme = strstr(url, "://");
	size_t origin = scheme ? (size_t)(scheme + 3 - url) : 0;
	auto_free char *server = NULL;
	size_t end = strlen(url);
	int r;

	if (!scheme)
		return err_field(err, "model.base_url",
		                 "'%.100s' is no URL such as https://api.openai.com/v1", url);
	while (end > 0 && url[end - 1] == '/')
		end--;
	origin += strcspn(url + origin, "/");
	server = xstrndup(url, origin);
	c->path = xasprintf("%.*s%s", (int)(end > origin ? end - origin : 0), url + origin,
	                    c->wire->path);
	r = http_client_open(server, &c->client, err);
	return r < 0 ? err_prefix(err, "the model") : 0;
}

static void build_body(struct chat *c, const char *instructions)
{
	const struct eval_model *model = c->model;
	uint64_t max_tokens = model->max_tokens ? model->max_tokens : c->wire->max_tokens;

	c->body = c->wire->begin(instructions, c->messages);
	(void)json_object_set_new(c->body, "model", json_string(model->name));
	(void)json_object_set(c->body, "messages", c->messages);
	if (max_tokens)
		(void)json_object_set_new(c->body, "max_tokens",
		                          json_integer((json_int_t)max_tokens));
	if (model->has_temperature)
		(void)json_object_set_new(c->body, "temperature", json_real(model->temperature));
}

/* "ANTHROPIC_API_KEY" */
static const char *key_name(const struct eval_model *model)
{
	return model->key_env ? model->key_env : eval_wire_find(model->api)->key_env;
}

int chat_check_key(const struct eval_model *model, struct err *err)
{
	const char *name = key_name(model), *key = getenv(name);

	if ((key && *key) || (model->base_url && !model->key_env))
		return 0;
	(void)err_field(err, "model.key_env", "there is no key: %s is not in the environment",
	                name);
	return err_hint(err,
	                "export %s, or say base_url if the model is on a server of your own "
	                "that wants no key",
	                name);
}

int chat_open(const struct eval_model *model, const char *instructions, const char *prompt,
              uint64_t deadline_us, struct chat **ret, struct err *err)
{
	auto_call(chat_closep) struct chat *c = xnew0(struct chat);
	const char *key;
	int r;

	c->wire = eval_wire_find(model->api);
	c->model = model;
	c->deadline_us = deadline_us;
	key = getenv(key_name(model));
	if (key && *key)
		c->key = xasprintf("%s%s", c->wire->key_prefix, key);
	c->messages = json_pack("[{s:s, s:s}]", "role", "user", "content", prompt);
	build_body(c, instructions);
	r = connect_to(c, model->base_url ? model->base_url : c->wire->url, err);
	if (r < 0)
		return r;
	http_client_set_deadline(c->client, deadline_us);
	*ret = take_ptr(c);
	return 0;
}

/* One exchange: the status, with the reply's text. */
static int ask(struct chat *c, const char *text, struct buf *reply, struct err *err)
{
	struct http_field fields[3] = {{"Accept", "application/json"}};
	size_t n = 1;
	struct http_send send = {.method = "POST",
	                         .path = c->path,
	                         .fields = fields,
	                         .content_type = "application/json",
	                         .data = text,
	                         .len = strlen(text)};
	int status = 0;
	int r;

	if (c->key)
		fields[n++] = (struct http_field){c->wire->key_field, c->key};
	if (c->wire->more.name)
		fields[n++] = c->wire->more;
	send.n_fields = n;
	r = http_client_send(c->client, &send, err);
	if (r == 0)
		r = http_client_head(c->client, &status, err);
	if (r < 0)
		return err_prefix(err, "the model");
	r = http_client_read_all(c->client, reply);
	if (r < 0)
		return err_set(err, ERR_UNAVAILABLE, -r, "the model's answer is incomplete");
	return status;
}

static uint64_t wait_ms(const struct chat *c, int tries)
{
	const char *said = http_client_header(c->client, "Retry-After");
	uint64_t seconds;

	if (said && parse_u64(said, WAIT_MAX_MS / 1000, &seconds) == 0)
		return seconds * 1000;
	return (uint64_t)WAIT_MS << tries;
}

static bool is_busy(int status)
{
	return status == 408 || status == 409 || status == 429 || status >= 500;
}

/* Waits before the next try; false: there is no time left for one. */
static bool pause_for(const struct chat *c, uint64_t ms)
{
	const struct timespec time = {.tv_sec = (time_t)(ms / 1000),
	                              .tv_nsec = (long)(ms % 1000) * 1000000};

	if (clock_steady_us() + ms * 1000 >= c->deadline_us)
		return false;
	(void)nanosleep(&time, NULL);
	return true;
}

static int refuse(int status, const struct buf *reply, struct err *err)
{
	auto_json json_t *answer = NULL;
	const json_t *error;
	const char *message = NULL;

	if (json_parse(buf_str(reply), reply->len, &answer, NULL) < 0)
		answer = NULL;
	error = json_object_get(answer, "error");
	message = json_is_string(error) ? json_string_value(error)
	                                : json_string_value(json_object_get(error, "message"));
	return err_set(err, ERR_UNAVAILABLE, 0, "the model answered with status %d%s%.240s", status,
	               message ? ": " : "", message ? message : "");
}

static int ask_patiently(struct chat *c, struct buf *reply, struct err *err)
{
	auto_free char *text = json_dumps(c->body, JSON_COMPACT);

	for (int tries = 0;; tries++) {
		int status;

		buf_truncate(reply, 0);
		status = ask(c, text, reply, err);
		if (status < 0)
			return status;
		if (status >= 200 && status < 300)
			return 0;
		if (!is_busy(status) || tries == TRIES - 1 || !pause_for(c, wait_ms(c, tries)))
			return refuse(status, reply, err);
	}
}

int chat_next(struct chat *c, struct chat_turn *ret, struct err *err)
{
	struct buf reply = BUF_INIT(REPLY_MAX);
	auto_json json_t *answer = NULL;
	struct chat_turn turn = {0};
	int r = ask_patiently(c, &reply, err);

	if (r == 0) {
		r = json_parse(buf_str(&reply), reply.len, &answer, err);
		if (r < 0)
			(void)err_prefix(err, "the model's answer");
	}
	buf_done(&reply);
	if (r == 0)
		r = c->wire->read(answer, c->messages, &turn, &c->tokens, err);
	if (r < 0) {
		chat_turn_done(&turn);
		return r;
	}
	*ret = turn;
	return 0;
}
