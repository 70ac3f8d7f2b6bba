// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The archives that the host's own apt uses, so that templates are built from the operator's
 * choice, and cloche itself names no mirror. Both of apt's formats are read (sources.list(5)):
 * lines, and paragraphs of fields. Sources that apt would not use, or that are not Debian's main,
 * are left out.
 */
#include "base/err.h"

#include <stdbool.h>

struct sources {
	char **lines; /* "OPTIONS URI SUITE COMPONENT…"; NULL-terminated; OPTIONS "[]" if none */
	char *codename; /* of this host's release; or NULL */
};

/* path: a file, or a directory like /etc/apt. If it does not exist, there are none. */
void sources_read(struct sources *s, const char *path);
void sources_done(struct sources *s);
/* A text of either form; lines are appended. */
void sources_parse(struct sources *s, const char *text, bool is_paragraphs);
