// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a browser sends back: a Cookie field's "name=value; other=value". */
#include <stdbool.h>
#include <stddef.h>

struct cookie {
	const char *value; /* a part of the field, up to a blank or semicolon; may be empty */
	size_t len;
};

/* Finds the next cookie of that name in *rest (NULL: there was no field), and moves *rest behind
 * it. There may be several: other servers of the same domain may set the same name. */
bool cookie_next(const char **rest, const char *name, struct cookie *ret);
