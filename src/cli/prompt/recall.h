// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The lines typed at prompts of earlier days: $XDG_STATE_HOME/cloche/history, or
 * ~/.local/state/cloche/history; a line each, for the owner's eyes only. Where it cannot be kept,
 * it is not, and nobody is told: a prompt works without.
 */
#include "base/buf.h"

#define RECALL_LINES 1000

struct recall {
	int fd; /* for appending; -1 = not kept */
};

typedef void (*recall_fn)(void *arg, const char *line);

/* Opens it, and hands the last RECALL_LINES lines to fn, the oldest first. */
void recall_open(struct recall *r, recall_fn fn, void *arg);
void recall_add(struct recall *r, const char *line); /* whole at once: several may append */
void recall_close(struct recall *r);
