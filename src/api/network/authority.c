// SPDX-License-Identifier: Apache-2.0
/* By which names clients find ports and E2B's API, and which authority they have to trust for that:
 * all of it is public, as is what a handshake shows. */
#include "preview/authority.h"

#include "api/api.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "base/units.h"
#include "http/target.h"

#include <stdio.h>

static void put_authority(struct json_writer *w, const struct authority *a)
{
	json_put_str(w, "certificates", a ? authority_pem(a) : NULL);
	json_open_array(w, "fingerprints");
	for (size_t i = 0; a && i < authority_count(a); i++)
		json_put_str(w, NULL, authority_fingerprint(a, i));
	json_close_array(w);
	if (a)
		json_put_i64(w, "expires_us", authority_expires_s(a) * (int64_t)SECOND_US);
	else
		json_put_null(w, "expires_us");
}

int get_authority(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const char *domain = api->preview.domain;
	char address[HTTP_HOST_SIZE + 16]; /* with a port */
	struct json_writer *w;
	struct reply reply;

	if (!domain) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "this daemon has no names for sandboxes");
		return err_hint(err, "start it with --preview-domain NAME, or set `domain` of "
		                     "[preview]");
	}
	(void)snprintf(address, sizeof(address), "%s%s", domain, api->preview_tls_port);
	w = reply_begin(&reply);
	json_put_str(w, "domain", domain);
	json_put_str(w, "address", api->preview_url[0] ? address : NULL);
	put_authority(w, api->authority);
	return reply_send(&reply, req, 200, err);
}
