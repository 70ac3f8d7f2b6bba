// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a browser sends back: a Cookie field's "name=value; other=value". */
#include <stdbool.h>
#include <stddef.h>

struct cookie {
	const char *value; /* a part of the field, up to a blank or semicolon; may be empty */
	size_t len;
};

/* The next one of that name in *rest (NULL: no field came), which moves behind it. Whoever stands
 * beside us may have set one of the same name, so there may be several. */
bool cookie_next(const char **rest, const char *name, struct cookie *ret);
