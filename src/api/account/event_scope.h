// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Whose entries of the event log a caller may see. */
#include "http/server.h"

/* 1: the caller asks for what is the whole host's (?all=1), and may. 0: for its own project's. */
must_check int wants_all_projects(const struct http_req *req, struct err *err);
