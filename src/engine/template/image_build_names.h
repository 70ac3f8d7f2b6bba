// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * mkfs.erofs 1.5 cuts names of 255 bytes, which Linux allows, to 254, and then reports only that a
 * file was not found. So the tree is searched before, and the error tells which name it is.
 */
#include "base/err.h"

/* Checks names below the working directory. Files that match left_out are not packed and may have
 * any name. */
must_check int image_build_check_names(const char *const *left_out, size_t n, struct err *err);
