// SPDX-License-Identifier: Apache-2.0
#include "compat/compat.h"

#include "compat/e2b/envd/envd.h"

#include <assert.h>
#include <string.h>

static const struct face *const faces[] = {&e2b_face, &vercel_face};

/* Joins all rows into one table, since the server takes only one. The table does not change once it
 * is made. */
const struct http_route *compat_routes(size_t *ret_n)
{
	static struct http_route all[API_ROUTES_MAX];
	size_t n;
	const struct http_route *native = api_routes(&n);

	memcpy(all, native, n * sizeof(*native));
	for (size_t i = 0; i < ARRAY_SIZE(faces); i++) {
		const struct face *f = faces[i];

		assert(n + f->n_routes <= ARRAY_SIZE(all));
		memcpy(all + n, f->routes, f->n_routes * sizeof(*f->routes));
		n += f->n_routes;
	}
	*ret_n = n;
	return all;
}

int compat_open(struct api *api, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(faces); i++)
		if (faces[i]->open)
			r = faces[i]->open(api, err);
	return r;
}

void compat_close(struct api *api)
{
	for (size_t i = 0; i < ARRAY_SIZE(faces); i++)
		if (faces[i]->close)
			faces[i]->close(api);
}

int compat_plan_build(const json_t *started, const struct template *from, json_t **ret,
                      struct err *err)
{
	return e2b_face.plan_build(started, from, ret, err);
}

static const struct face *face_of(const struct http_req *req)
{
	for (size_t i = 0; i < ARRAY_SIZE(faces); i++)
		if (faces[i]->owns(req))
			return faces[i];
	return NULL;
}

int compat_divert(struct http_req *req, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(faces); i++) {
		int r = faces[i]->divert ? faces[i]->divert(req, err) : 0;

		if (r != 0)
			return r;
	}
	return api_divert(req, err);
}

int compat_admits(struct http_req *req, const char *id, uint16_t port, struct sandbox **ret,
                  char ret_host[PREVIEW_HOST_SIZE])
{
	return envd_admits(req, id, port, ret, ret_host);
}

int compat_authorize(struct http_req *req, struct err *err)
{
	const struct face *f = face_of(req);

	return f && f->authorize ? f->authorize(req, err) : api_authorize(req, err);
}

int compat_fail(struct http_req *req, const struct err *err)
{
	const struct face *f = face_of(req);

	if (!f)
		return 0;
	f->fail(req, err);
	return 1;
}
