// SPDX-License-Identifier: Apache-2.0
#include "api/find.h"

const char *caller_project(const struct http_req *req)
{
	return key_project_id(http_user(req));
}

int find_sandbox(const struct http_req *req, struct sandbox **ret, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *id = http_param(req, "id");
	struct sandbox *s = sandbox_find(api->fleet, caller_project(req), id);

	if (!s)
		return err_set(err, ERR_NOT_FOUND, 0, "no sandbox '%.64s'", id);
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

int no_query(const struct http_req *req, struct err *err)
{
	static const char *const none[] = {NULL};

	return http_query_check(req, none, err);
}
