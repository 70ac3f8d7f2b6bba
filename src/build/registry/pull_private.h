// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What planning a pull leaves to fetching. */
#include "build/image/image_reference.h"
#include "build/registry/pull.h"
#include "net/policy/policy.h"

struct pull {
	char ref[IMAGE_REF_MAX];
	struct policy *policy; /* until it is lent */
	json_t *argv;
	char locked[200]; /* why credentials of the settings could not be used; or "" */
};
