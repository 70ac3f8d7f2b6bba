// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Variables in the values of a Compose file, and files of variables. No I/O.
 *
 *	$X ${X}       its value, "" where there is none
 *	${X:-text}    text where X is empty or not set; ${X-text} where it is not set
 *	${X:?words}   the file is refused with these words then; ${X?words} likewise
 *	${X:+text}    text where X is not empty; ${X+text} where it is set
 *	$$            a dollar
 *
 * text may have variables itself.
 */
#include "base/err.h"

#include <jansson.h>

#define INTERPOLATED_MAX ((size_t)128 * 1024)

/* variables: an object of strings. *ret is for free(). The error has no place: the caller adds it.
 */
must_check int interpolate(const char *text, const json_t *variables, char **ret, struct err *err);

/*
 * Adds to *ret what a file of NAME=VALUE lines says: "export " before a name, comments, values in
 * single quotes as they are, in double quotes with \n and kin, and with variables in all but single
 * quotes. A NAME alone takes its value from variables. Later lines win.
 */
must_check int interpolate_file(const char *name, char *text, const json_t *variables, json_t *ret,
                                struct err *err);
