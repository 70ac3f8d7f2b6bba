// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "http/server.h"

/* Part of the face's divert. */
int terminal_divert(struct http_req *req, struct err *err);
