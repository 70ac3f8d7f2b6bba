// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Finds the volume of a request about a volume's files; only the holder of its token finds it. */
#include "compat/e2b/e2b.h"

must_check int e2b_find_content(struct http_req *req, char ret_id[ID_SIZE], struct err *err);
