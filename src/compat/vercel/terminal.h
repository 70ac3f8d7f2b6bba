// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "http/server.h"

/* Part of divert() of struct face. */
int terminal_divert(struct http_req *req, struct err *err);
