// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a .dockerignore leaves out. Each line is a pattern of paths from the directory it is in: '*'
 * and '?' match within a name, '**' any number of directories, "[a-z]" a class. A pattern that
 * matches a directory counts for all that is in it; "!" takes back what earlier lines have said.
 * The last line that matches decides. No I/O.
 */
#include <stdbool.h>
#include <stddef.h>

struct ignore;

struct ignore *ignore_new(const char *text, size_t len);
void ignore_free(struct ignore *g); /* NULL is fine */
/* path: relative, without "./". NULL leaves out nothing. */
bool ignore_has(const struct ignore *g, const char *path);
/* Whether something in a directory that is left out may be kept all the same. */
bool ignore_has_exceptions(const struct ignore *g);
