// SPDX-License-Identifier: Apache-2.0
#include "api/api.h"

int api_authorize(struct http_req *req, struct err *err)
{
	(void)req;
	return err_set(err, ERR_UNAUTHENTICATED, 0, "this call needs an API key");
}
