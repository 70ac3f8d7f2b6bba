// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * mkfs.erofs 1.5 cuts names of 255 bytes, which Linux allows, to 254, and then finds no such file:
 * all that it says is that it found none. So the tree is looked through before, and who has such a
 * name is told which it is.
 */
#include "base/err.h"

/* Below the working directory. What a pattern of left_out matches is not packed and may have any
 * name. */
must_check int image_build_check_names(const char *const *left_out, size_t n, struct err *err);
