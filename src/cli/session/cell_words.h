// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the word at the end of a line may become: names that the interpreter itself knows, its
 * variables and their members, in bash commands and files. It is asked by a short call, which
 * changes no variable; one that is busy or slow has no words.
 */
#include "cli/remote/remote.h"

struct cell_words {
	struct remote *remote;
	const char *sandbox, *language;
	const char *context; /* NULL = the language's own */
};

/* A prompt_words_fn, with a struct cell_words. */
char *cell_words(void *arg, const char *text, size_t *ret_len);
