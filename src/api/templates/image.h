// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Creates and runs that name an image of a registry. */
#include "api/api.h"
#include "sandbox/model/sandbox.h"

/* Sets spec->template to what the image became. 1: it is being pulled; as of find_packages(). */
must_check int find_pulled(struct http_req *req, struct sandbox_spec *spec, struct err *err);
