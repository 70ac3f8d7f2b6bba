// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What every wire asks before a secret is removed. */
#include "secret/secret.h"

struct http_req;

/* Refuses if a webhook or the policy of a sandbox of the caller's project refers to it. */
must_check int secret_check_unused(const struct http_req *req, const char *name, struct err *err);
