// SPDX-License-Identifier: Apache-2.0
#include "http/cookie.h"

#include <string.h>

bool cookie_next(const char **rest, const char *name, struct cookie *ret)
{
	size_t name_len = strlen(name);
	const char *p = *rest;

	while (p && *p) {
		const char *own = p + strspn(p, " \t");

		p = own + strcspn(own, ";");
		p += *p == ';';
		*rest = p;
		if (strncmp(own, name, name_len) != 0 || own[name_len] != '=')
			continue;
		own += name_len + 1;
		*ret = (struct cookie){own, strcspn(own, "; \t")};
		return true;
	}
	return false;
}
