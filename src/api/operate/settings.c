// SPDX-License-Identifier: Apache-2.0
/* The settings in force. A reload makes a new gateway, so what was described at its start holds for
 * as long as it lives. */
#include "api/api.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

int get_settings(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;
	int r = check_is_default(req, err);

	if (r < 0)
		return r;
	json_put_value(reply_begin_bare(&reply), NULL, api->settings);
	return reply_send(&reply, req, 200, err);
}
