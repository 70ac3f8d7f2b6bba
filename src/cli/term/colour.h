// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Colours, where somebody looks at them: on a terminal, unless NO_COLOR is set (no-color.org). */
#include <stdbool.h>
#include <stdio.h>

enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_BAD, COLOUR_WARN, COLOUR_DIM, COLOUR_BOLD };

bool colour_is_wanted(FILE *out);
/* What to print to begin with it, COLOUR_NONE ends it; "" where there are none. */
const char *colour(FILE *out, enum colour c);
