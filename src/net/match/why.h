// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * How the parsers of this directory refuse: they return -EINVAL, and in *why a few words that
 * complete a sentence about the text ("has an empty label"). The caller knows which field or packet
 * the text came from, so it makes the error message. why may be NULL.
 */
#include "base/auto.h"

static inline int refuse_as(const char **why, const char *words)
{
	if (why)
		*why = words;
	return -EINVAL;
}
