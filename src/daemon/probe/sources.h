// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The archives that the host's own apt uses, so that templates are built from what the operator
 * has chosen and no name of a mirror stands anywhere in cloche. Both of apt's forms are read
 * (sources.list(5)): lines, and paragraphs of fields. What apt would not use, or is not Debian's
 * main, is left out.
 */
#include "base/err.h"

#include <stdbool.h>

struct sources {
	char **lines; /* "OPTIONS URI SUITE COMPONENT…"; NULL-terminated; OPTIONS "[]" if none */
	char *codename; /* of this host's release; or NULL */
};

/* path: a file, or a directory as /etc/apt is. One that is not there has none. */
void sources_read(struct sources *s, const char *path);
void sources_done(struct sources *s);
/* A text of either form; lines are appended. */
void sources_parse(struct sources *s, const char *text, bool is_paragraphs);
