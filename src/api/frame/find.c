// SPDX-License-Identifier: Apache-2.0
#include "api/frame/find.h"

#include <string.h>
#include <strings.h>

const char *caller_project(const struct http_req *req)
{
	return key_project_id(http_user(req));
}

int check_is_default(const struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = keyring_find_project(api->keyring, "default");

	if (id && strcmp(id, caller_project(req)) == 0)
		return 0;
	return err_set(err, ERR_FORBIDDEN, 0,
	               "this call needs an admin key of the project 'default'");
}

bool is_host_admin(const struct api *api, const struct key *key)
{
	const char *id = keyring_find_project(api->keyring, "default");

	return key_scope(key) == SCOPE_ADMIN && id && strcmp(id, key_project_id(key)) == 0;
}

/* The project that is meant: the caller's own, or a named one. */
int find_project(const struct http_req *req, const char *name, const char **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id;
	int r;

	*ret = caller_project(req);
	if (!name)
		return 0;
	r = check_is_default(req, err);
	if (r < 0)
		return r;
	id = keyring_find_project(api->keyring, name);
	if (!id)
		return err_set(err, ERR_NOT_FOUND, 0, "no project '%.64s'", name);
	*ret = id;
	return 0;
}

int lead_elsewhere(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);

	return api->lead ? api->lead(req, err) : 0;
}

int find_sandbox(const struct http_req *req, struct sandbox **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "id");
	struct sandbox *s = sandbox_find(api->fleet, caller_project(req), id);

	if (!s) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "no sandbox '%.64s'", id);
		return err_hint(err, "'cloche ps' lists those of your project");
	}
	*ret = s;
	return 0;
}

int find_exec(const struct http_req *req, struct exec **ret, struct err *err)
{
	const char *id = http_param(req, "exec_id");
	struct sandbox *s;
	struct exec *e;
	int r = find_sandbox(req, &s, err);

	if (r < 0)
		return r;
	e = exec_find(s, id);
	if (!e)
		return err_set(err, ERR_NOT_FOUND, 0, "no exec '%.64s' in sandbox '%s'", id,
		               sandbox_id(s));
	*ret = e;
	return 0;
}

const char *const result_types[] = {"application/json", "application/x-ndjson", "text/event-stream",
                                    NULL};
const char *const event_types[] = {"application/x-ndjson", "text/event-stream", NULL};

/* Whether a media range ("text/html", "text/" before a star, or two stars) covers the type. */
static bool covers(const char *range, size_t len, const char *type)
{
	if (len == 3 && strncmp(range, "*/*", 3) == 0)
		return true;
	if (len > 2 && range[len - 1] == '*' && range[len - 2] == '/')
		return strncasecmp(range, type, len - 1) == 0;
	return len == strlen(type) && strncasecmp(range, type, len) == 0;
}

int check_accept(const struct http_req *req, const char *const *types, struct err *err)
{
	const char *accept = http_header(req, "Accept");

	if (!accept)
		return 0;
	for (const char *p = accept; *p; p += strcspn(p, ","), p += *p == ',') {
		p += strspn(p, " \t");
		for (const char *const *type = types; *type; type++)
			if (covers(p, strcspn(p, " \t;,"), *type))
				return 0;
	}
	(void)err_set(err, ERR_NOT_ACCEPTABLE, 0,
	              "none of the types in the Accept header can be sent");
	return err_hint(err, "leave out the Accept header, or name application/x-ndjson");
}
