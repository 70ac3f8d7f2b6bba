// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Requests that name an image of a registry. */
#include "api/api.h"
#include "build/transfer/image_find.h"
#include "sandbox/model/sandbox.h"

/* The template that the image became. 1: it is being pulled; the request's route is called once
 * more when it is here, or the request is answered with the reason why it is not. */
must_check int await_image(struct http_req *req, const struct image_wish *wish,
                           struct template **ret, struct err *err);
/* For creates and runs: sets spec->template to what the image became. 1: it is being pulled, or the
 * template comes from another node; as of find_packages(). */
must_check int find_pulled(struct http_req *req, struct sandbox_spec *spec, struct err *err);
