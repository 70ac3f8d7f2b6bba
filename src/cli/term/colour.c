// SPDX-License-Identifier: Apache-2.0
#include "cli/term/colour.h"

#include "base/auto.h"

#include <string.h>

bool colour_is_wanted(FILE *out)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && !(term && strcmp(term, "dumb") == 0) && isatty(fileno(out));
}

const char *colour(FILE *out, enum colour c)
{
	static const char *const codes[] = {
		[COLOUR_NONE] = "\x1b[0m",  [COLOUR_GOOD] = "\x1b[32m", [COLOUR_BAD] = "\x1b[31m",
		[COLOUR_WARN] = "\x1b[33m", [COLOUR_DIM] = "\x1b[2m",   [COLOUR_BOLD] = "\x1b[1m",
	};

	return colour_is_wanted(out) ? codes[c] : "";
}
