// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Creates and runs that ask for packages. */
#include "api/api.h"
#include "sandbox/model/sandbox.h"

/*
 * Sets spec->set to what has the packages that it asks for. 1: they are being installed. The
 * handler is to return that; it is called again, from its beginning, when they are there, or the
 * request is answered with the error. language: of the code that is to run, or NULL.
 */
must_check int find_packages(struct http_req *req, struct sandbox_spec *spec, const char *language,
                             struct err *err);
/* The body of a build that asks for packages alone. */
must_check int prepare_packages(struct http_req *req, const json_t *body, struct err *err);
