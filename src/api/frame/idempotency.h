// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The Idempotency-Key header of a request, with a digest of what it asks for. */
#include "api/api.h"
#include "sandbox/model/idempotency.h"

/* 1: *ret is set, for as long as req lives; 0: the request has none. */
must_check int idempotency_read(const struct http_req *req, struct idempotency_key *ret,
                                struct err *err);
must_check int idempotency_refuse(const struct http_req *req,
                                  struct err *err); /* where it has no meaning */
