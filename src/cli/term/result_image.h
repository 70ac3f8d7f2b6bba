// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Images among a call's results, saved as files. What is in them is the sandbox's word: the name is
 * ours, no file is ever overwritten, and their number has a bound. */
#include "base/json/json.h"

#define RESULT_IMAGES_MAX 64

struct result_images {
	const char *dir; /* where they go; NULL = they are not saved */
	unsigned next;   /* the number to try next */
	unsigned n_call; /* saved by the call that runs: set to 0 before each */
};

bool result_image_is_one(const char *mime); /* a type that result_image_save() knows */
/* Saves it as DIR/cloche-N.EXTENSION. *ret_path is for free(). */
must_check int result_image_save(struct result_images *images, const char *mime,
                                 const json_t *value, char **ret_path, struct err *err);
