// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * How the parsers of this directory refuse: -EINVAL, and a few words that complete a sentence about
 * the text ("has an empty label"). Who asked knows which field or packet it came from and whether
 * a person reads about it, so no struct err is filled here. why may be NULL.
 */
#include "base/auto.h"

static inline int refuse_as(const char **why, const char *words)
{
	if (why)
		*why = words;
	return -EINVAL;
}
