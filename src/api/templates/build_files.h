// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Archives that clients send ahead of their builds (build/parcel.h). */
#include "api/api.h"
#include "build/parcel.h"

/* Receives the request's body as a parcel, which it takes; then answers, with the parcel's hash. */
void receive_parcel(struct http_req *req, struct parcel_in *in,
                    void (*answer)(struct http_req *req, const char *hash));
