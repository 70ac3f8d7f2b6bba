// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Other products' APIs on the daemon's own port. A face is one such API: its routes, who may call
 * them, and the form of its errors. Behind them are the same sandboxes and the same calls that
 * src/api makes: a face only translates.
 *
 *	request --> divert: of which face is it, by its Host? --> route --> authorize --> handler
 *	                                                     any err --> fail, in the face's words
 *
 * Data that a face needs about a sandbox and that the daemon does not have is in the sandbox's
 * notes (sandbox/model/sandbox.h).
 */
#include "api/api.h"

struct face {
	const struct http_route *routes;
	size_t n_routes;
	/* Whether a request without a route (yet) is meant for this face, by its path. */
	bool (*owns)(const struct http_req *req);
	/* Called once, when the fleet is ready and before the first request; NULL: it keeps
	 * nothing. */
	int (*open)(struct api *api, struct err *err);
	void (*close)(struct api *api); /* may be NULL too; also called after a failed open */
	http_fn divert;                 /* as of struct http_app; NULL: it diverts nothing */
	http_fn authorize;              /* NULL: api_authorize() */
	void (*fail)(struct http_req *req, const struct err *err); /* answers with err */
	/* As plan_foreign() of struct builds_config; NULL: it starts no builds. */
	int (*plan_build)(const json_t *started, const struct template *from, json_t **ret,
	                  struct err *err);
};
extern const struct face e2b_face, vercel_face;

must_check int compat_open(struct api *api, struct err *err);
void compat_close(struct api *api);
/* The hooks of struct http_app, including the native ones. */
const struct http_route *compat_routes(size_t *ret_n); /* of all faces; lives for good */
int compat_divert(struct http_req *req, struct err *err);
/* admits() of struct preview. */
int compat_admits(struct http_req *req, const char *id, uint16_t port, struct sandbox **ret,
                  char ret_host[PREVIEW_HOST_SIZE]);
int compat_authorize(struct http_req *req, struct err *err);
int compat_fail(struct http_req *req, const struct err *err);
/* plan_foreign() of struct builds_config. */
int compat_plan_build(const json_t *started, const struct template *from, json_t **ret,
                      struct err *err);
