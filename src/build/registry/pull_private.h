// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What planning a pull leaves to fetching. */
#include "build/image/image_reference.h"
#include "build/registry/pull.h"
#include "net/policy/policy.h"

struct pull {
	char ref[IMAGE_REF_MAX];
	struct policy *policies[2]; /* the same twice: for a second try, elsewhere. Until they are
	                               lent */
	json_t *wish;               /* for guest/build/pull.py */
	char locked[200];           /* why credentials of the settings could not be used; or "" */
};
