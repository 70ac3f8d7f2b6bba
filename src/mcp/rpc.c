// SPDX-License-Identifier: Apache-2.0
#include "mcp/rpc.h"

#include <string.h>

#define META_VERSION "io.modelcontextprotocol/protocolVersion"

static const char *const legacy_versions[] = {RPC_VERSION_LEGACY, "2025-06-18", "2025-03-26",
                                              "2024-11-05"};

static bool is_short_text(const json_t *value)
{
	return json_is_string(value) && json_string_length(value) <= RPC_TEXT_MAX &&
	       strlen(json_string_value(value)) == json_string_length(value);
}

static bool is_id(const json_t *value)
{
	return json_is_integer(value) || is_short_text(value);
}

static int read_params(struct rpc_message *m, const json_t *params, struct err *err)
{
	const json_t *meta = json_object_get(params, "_meta");
	const json_t *version = json_object_get(meta, META_VERSION);
	const json_t *token = json_object_get(meta, "progressToken");

	if (params && !json_is_object(params)) {
		(void)err_set(err, ERR_BAD_REQUEST, 0, "params must be an object");
		return RPC_INVALID_PARAMS;
	}
	if (meta && !json_is_object(meta)) {
		(void)err_set(err, ERR_BAD_REQUEST, 0, "params._meta must be an object");
		return RPC_INVALID_PARAMS;
	}
	if (version && !is_short_text(version)) {
		(void)err_set(err, ERR_BAD_REQUEST, 0, "the protocol version must be a string");
		return RPC_INVALID_PARAMS;
	}
	if (token && !is_id(token)) {
		(void)err_set(err, ERR_BAD_REQUEST, 0,
		              "params._meta.progressToken must be a string or an integer");
		return RPC_INVALID_PARAMS;
	}
	m->params = params;
	m->version = version ? json_string_value(version) : NULL;
	m->progress_token = token;
	return 0;
}

static int invalid(struct err *err, const char *why)
{
	(void)err_set(err, ERR_BAD_REQUEST, 0, "%s", why);
	return RPC_INVALID_REQUEST;
}

int rpc_read(const json_t *body, struct rpc_message *ret, struct err *err)
{
	const json_t *id = json_object_get(body, "id");
	const json_t *method = json_object_get(body, "method");
	const char *jsonrpc = json_string_value(json_object_get(body, "jsonrpc"));

	*ret = (struct rpc_message){0};
	if (!json_is_object(body))
		return invalid(err, "the body must be one JSON-RPC message; batches are not taken");
	if (id && is_id(id))
		ret->id = id;
	if (!jsonrpc || strcmp(jsonrpc, "2.0") != 0)
		return invalid(err, "jsonrpc must be \"2.0\"");
	if (id && !ret->id)
		return invalid(err, "id must be a string or an integer");
	if (!method && (json_object_get(body, "result") || json_object_get(body, "error"))) {
		ret->kind = RPC_RESPONSE;
		return 0;
	}
	if (!is_short_text(method))
		return invalid(err, "method must be a string");
	ret->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
	ret->method = json_string_value(method);
	return read_params(ret, json_object_get(body, "params"), err);
}

const char *rpc_pick_version(const json_t *params)
{
	const char *asked = json_string_value(json_object_get(params, "protocolVersion"));

	for (size_t i = 0; asked && i < ARRAY_SIZE(legacy_versions); i++)
		if (strcmp(asked, legacy_versions[i]) == 0)
			return legacy_versions[i];
	return RPC_VERSION_LEGACY;
}

const char *rpc_param(const struct rpc_message *m, const char *name)
{
	const json_t *value = json_object_get(m->params, name);

	return is_short_text(value) ? json_string_value(value) : NULL;
}

void rpc_open(struct json_writer *w, const json_t *id)
{
	json_open_object(w, NULL);
	json_put_str(w, "jsonrpc", "2.0");
	if (id)
		json_put_value(w, "id", id);
	else
		json_put_null(w, "id");
}

static void put_data(struct json_writer *w, int code, const char *hint)
{
	json_open_object(w, "data");
	if (hint && *hint)
		json_put_str(w, "hint", hint);
	if (code == RPC_NO_VERSION) {
		json_open_array(w, "supported");
		json_put_str(w, NULL, RPC_VERSION_MODERN);
		json_close_array(w);
	}
	json_close_object(w);
}

int rpc_put_error(struct buf *out, const json_t *id, int code, const char *message,
                  const char *hint)
{
	struct json_writer w;

	json_writer_init(&w, out);
	rpc_open(&w, id);
	json_open_object(&w, "error");
	json_put_i64(&w, "code", code);
	json_put_str(&w, "message", message);
	if ((hint && *hint) || code == RPC_NO_VERSION)
		put_data(&w, code, hint);
	json_close_object(&w);
	json_close_object(&w);
	return json_writer_end(&w);
}
