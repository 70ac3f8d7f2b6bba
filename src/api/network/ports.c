// SPDX-License-Identifier: Apache-2.0
/*
 * Ports of a sandbox: opened with a token, listed, closed; and one as a line of bytes over a
 * WebSocket, for `cloche port-forward`. Web sites on them are served by src/preview.
 */
#include "api/network/ports.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/frame/wake.h"
#include "api/handlers.h"

#include "base/log.h"
#include "base/parse.h"

#include <stdio.h>

#define EXPIRES_MAX_MS (UINT64_C(365) * 24 * 3600 * 1000)

static void put_urls(struct json_writer *w, const struct api *api, const struct sandbox *s,
                     const struct port *port, const char *token)
{
	const char *query = token ? "?cloche_token=" : "";
	const char *id = sandbox_id(s);
	char text[400];

	(void)snprintf(text, sizeof(text), "%s/p/%s/%u%s%s/", api->preview_url, id, port->number,
	               token ? "~" : "", token ? token : "");
	json_put_str(w, "url", api->preview_url[0] ? text : NULL);
	if (!api->preview.domain) {
		json_put_null(w, "host_url");
		return;
	}
	(void)snprintf(text, sizeof(text), "%s://%u-%s.%s%s/%s%s", api->preview_scheme,
	               port->number, id + strlen("sb_"), api->preview.domain, api->preview_port,
	               query, token ? token : "");
	json_put_str(w, "host_url", text);
}

void port_to_json(struct json_writer *w, const char *name, const struct api *api,
                  const struct sandbox *s, const struct port *port, const char *token)
{
	json_open_object(w, name);
	json_put_u64(w, "port", port->number);
	json_put_bool(w, "public", port->is_public);
	put_urls(w, api, s, port, port->is_public ? NULL : token);
	if (token)
		json_put_str(w, "token", token);
	json_put_u64(w, "created_us", port->created_us);
	if (port->expires_us)
		json_put_u64(w, "expires_us", port->expires_us);
	else
		json_put_null(w, "expires_us");
	json_close_object(w);
}

void ports_open(struct json_writer *w, const struct http_req *req, struct sandbox *s,
                const struct port_numbers *numbers)
{
	char token[ID_SIZE];
	struct port port;
	struct err err;

	json_open_array(w, "ports");
	for (size_t i = 0; i < numbers->n; i++) {
		const struct port_spec spec = {.number = numbers->at[i]};

		if (port_open(s, &spec, token, &port, &err) == 0)
			port_to_json(w, NULL, http_app_arg(req), s, &port, token);
		else
			log_error("port.not_opened", "id=%s error='%s'", sandbox_id(s),
			          err.message);
	}
	json_close_array(w);
}

int create_port(struct http_req *req, struct err *err)
{
	struct port_spec spec = {0};
	const struct json_field fields[] = {
		{"port", JSON_FIELD_U64, &spec.number, true, .min = 1, .max = UINT16_MAX},
		{"expires_in_ms", JSON_FIELD_U64, &spec.expires_in_ms, .min = 1,
	         .max = EXPIRES_MAX_MS},
		{"public", JSON_FIELD_BOOL, &spec.is_public},
	};
	char token[ID_SIZE];
	struct reply reply;
	struct sandbox *s;
	struct port port;
	int r = 0;

	if (!http_json(req))
		r = err_field(err, "port", "is missing");
	if (r == 0)
		r = json_read(http_json(req), "", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r == 0)
		r = port_open(s, &spec, token, &port, err);
	if (r < 0)
		return r;
	port_to_json(reply_begin_bare(&reply), NULL, http_app_arg(req), s, &port, token);
	return reply_send(&reply, req, 201, err);
}

int list_ports(struct http_req *req, struct err *err)
{
	const struct port *port;
	struct json_writer *w;
	struct reply reply;
	struct sandbox *s;
	int r = find_sandbox(req, &s, err);

	if (r < 0)
		return r;
	w = reply_begin(&reply);
	json_open_array(w, "ports");
	for (size_t i = 0; (port = port_at(s, i)); i++)
		port_to_json(w, NULL, http_app_arg(req), s, port, NULL);
	json_close_array(w);
	return reply_send(&reply, req, 200, err);
}

static int read_port(const struct http_req *req, uint16_t *ret, struct err *err)
{
	uint64_t value;

	if (parse_u64(http_param(req, "port"), UINT16_MAX, &value) < 0 || value == 0)
		return err_field(err, "port", "must be a number from 1 to 65535");
	*ret = (uint16_t)value;
	return 0;
}

int delete_port(struct http_req *req, struct err *err)
{
	struct reply reply;
	struct sandbox *s;
	struct port port;
	uint16_t number = 0;
	int r = find_sandbox(req, &s, err);

	if (r == 0)
		r = read_port(req, &number, err);
	if (r == 0)
		r = port_close(s, number, &port, err);
	if (r < 0)
		return r;
	port_to_json(reply_begin_bare(&reply), NULL, http_app_arg(req), s, &port, NULL);
	return reply_send(&reply, req, 200, err);
}
