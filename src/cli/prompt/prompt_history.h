// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The lines typed at prompts of earlier days: $XDG_STATE_HOME/cloche/history, or
 * ~/.local/state/cloche/history; a line each, for the owner's eyes only. Where it cannot be kept,
 * it is not, and nobody is told: a prompt works without.
 */
#include "base/buf.h"

#define PROMPT_HISTORY_LINES 1000

struct prompt_history {
	int fd; /* for appending; -1 = not kept */
};

typedef void (*prompt_history_fn)(void *arg, const char *line);

/* Opens it, and hands the last PROMPT_HISTORY_LINES lines to fn, the oldest first. */
void prompt_history_open(struct prompt_history *r, prompt_history_fn fn, void *arg);
void prompt_history_add(struct prompt_history *r,
                        const char *line); /* whole at once: several may append */
void prompt_history_close(struct prompt_history *r);
