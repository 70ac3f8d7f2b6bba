// SPDX-License-Identifier: Apache-2.0
#pragma once
/* An object of the API as a sheet for people: a line a field, what is nested further to the right.
 * Any field that the daemon knows is shown, so that this need not learn of it. */
#include <jansson.h>

void sheet_print(const json_t *object);
