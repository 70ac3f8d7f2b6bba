// SPDX-License-Identifier: Apache-2.0
#include "api/frame/audit.h"

#include "api/frame/find.h"

#include <stdio.h>
#include <string.h>

#define PARAM_NAME_SIZE 32

static bool is_tool_call(const struct http_req *req)
{
	const char *method = json_string_value(json_object_get(http_json(req), "method"));

	return method && strcmp(method, "tools/call") == 0;
}

static bool is_write(const struct http_req *req, const struct http_route *route)
{
	enum http_method method = http_req_method(req);

	if (route->audit == AUDIT_TOOL)
		return is_tool_call(req);
	return route->audit == AUDIT_USUAL &&
	       ((method != HTTP_GET && method != HTTP_HEAD) || route->access == SCOPE_WRITE);
}

/* The file that it is about: a parameter of the query, or of the body, or of a tool. */
static const char *path_of(const struct http_req *req)
{
	const json_t *body = http_json(req);
	const json_t *arguments = json_object_get(json_object_get(body, "params"), "arguments");
	const char *path = http_query(req, "path");

	if (!path)
		path = json_string_value(json_object_get(body, "path"));
	return path ? path : json_string_value(json_object_get(arguments, "path"));
}

/* Its own id, also where the caller gave a name; "" where it is about none. */
static void find_subject(const struct http_req *req, const char *project_id, char ret[ID_SIZE])
{
	static const char *const params[] = {"id", "session_id"};
	const struct api *api = http_app_arg(req);
	const struct sandbox *s = NULL;

	(void)snprintf(ret, ID_SIZE, "%s", http_subject(req));
	for (size_t i = 0; !ret[0] && project_id && i < ARRAY_SIZE(params); i++) {
		const char *text = http_param(req, params[i]);

		s = text ? sandbox_find(api->fleet, project_id, text) : NULL;
		if (text && (s || id_is_valid(text, "sb")))
			(void)snprintf(ret, ID_SIZE, "%s", s ? sandbox_id(s) : text);
	}
}

static bool is_any(const struct sandbox *s, void *arg)
{
	(void)s;
	(void)arg;
	return true;
}

/* The caller's; for one who was let in without a key, that of the sandbox. NULL: a stranger's. */
static const char *project_of(const struct http_req *req)
{
	const struct api *api = http_app_arg(req);
	const struct key *key = http_user(req);
	const struct sandbox *s;

	if (key)
		return key_project_id(key);
	s = http_subject(req)[0] ? sandbox_find_shown(api->fleet, http_subject(req), is_any, NULL)
	                         : NULL;
	return s ? sandbox_project_id(s) : NULL;
}

/* Which snapshot, volume, template …: what the path named. A token in it is a secret. */
static void put_params(struct json_writer *w, const struct http_req *req)
{
	const char *p = strchr(http_route(req)->path, '{');
	char name[PARAM_NAME_SIZE];

	if (!p)
		return;
	json_open_object(w, "params");
	for (; p; p = strchr(p, '{')) {
		size_t len = strcspn(++p, "}");

		(void)snprintf(name, sizeof(name), "%.*s", (int)len, p);
		if (strcmp(name, "token") != 0)
			event_put_text(w, name, http_param(req, name));
	}
	json_close_object(w);
}

static void put_facts(struct json_writer *w, const struct http_req *req,
                      const struct http_outcome *o)
{
	const struct http_route *route = http_route(req);
	const char *path = path_of(req);

	json_put_str(w, "method", http_method_name(http_req_method(req)));
	json_put_str(w, "route", route->path);
	put_params(w, req);
	json_put_u64(w, "status", (uint64_t)o->status);
	json_put_u64(w, "bytes", o->bytes);
	if (path)
		event_put_text(w, "path", path);
	if (route->audit == AUDIT_TOOL)
		event_put_text(w, "tool",
		               json_string_value(json_object_get(
				       json_object_get(http_json(req), "params"), "name")));
}

static bool is_tool_read(const struct http_req *req, const struct http_route *route)
{
	return route->audit == AUDIT_TOOL && http_is_read(req);
}

void audit_request(const struct http_req *req, const struct http_outcome *o)
{
	const struct api *api = http_app_arg(req);
	const struct http_route *route = http_route(req);
	const bool is_read = route && (route->audit == AUDIT_READ || is_tool_read(req, route));
	const char *project_id;
	char sandbox_id[ID_SIZE];
	struct event e;
	struct json_writer *w;

	if (!route || !(is_read || (is_write(req, route) && !http_is_told(req))))
		return;
	project_id = project_of(req);
	if (!project_id)
		return;
	find_subject(req, project_id, sandbox_id);
	w = event_begin(&e, api->events, is_read ? EVENT_API_READ : EVENT_API_WRITE, project_id,
	                sandbox_id[0] ? sandbox_id : NULL);
	e.exec_id = http_param(req, "exec_id");
	put_facts(w, req, o);
	event_end(&e);
}
