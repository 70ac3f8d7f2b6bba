// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the routes of templates share. */
#include "api/api.h"
#include "sandbox/storage/template.h"

/* What is everybody's is the operator's to change. */
must_check int check_shared_template(const struct http_req *req, struct err *err);
/* The one that the path names. */
must_check int find_template(const struct http_req *req, struct template **ret, struct err *err);
/* env, user and cwd, which sandboxes start with; whoever wrote them. */
must_check int check_manifest(const json_t *manifest, struct err *err);
