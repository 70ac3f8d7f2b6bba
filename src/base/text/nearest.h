// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which of the words that there are somebody may have meant: the one that takes the fewest
 * letters to be put in, left out, changed or swapped, if those are few enough to be a slip.
 */
#include "base/err.h"

#include <stddef.h>

struct nearest {
	const char *word; /* as it was typed: len bytes */
	size_t len;
	const char *best; /* NULL: nothing is near */
	unsigned steps;   /* to best */
};

void nearest_init(struct nearest *n, const char *word, size_t len);
/* Holds one that there is against it. name is borrowed. */
void nearest_try(struct nearest *n, const char *name);
/* Asks in the error's hint whether that was meant, if something is near; returns as err_hint(). */
int nearest_hint(const struct nearest *n, struct err *err);
