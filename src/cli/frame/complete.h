// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What may come next on a command line, told by what --help prints: its lists of commands and
 * options, and the words of its usage lines. So that completion knows every command, and cannot
 * disagree with --help.
 */
#include <stdbool.h>
#include <stddef.h>

/* One thing that may stand there; help may be empty. Neither is NUL-terminated. */
typedef void (*complete_fn)(const char *word, size_t len, const char *help, size_t help_len,
                            void *arg);

/* Whether this help lists commands; word (len bytes) NULL, or one of them. */
bool complete_has_command(const char *help, const char *word);
/* Commands that begin with prefix. */
void complete_commands(const char *help, const char *prefix, complete_fn fn, void *arg);

/*
 * What stands behind a command, the last of words being the one that is under way ("" if nothing
 * is). Options and fixed words are told to fn; for words that are somebody's names, *ret_kind is
 * what usage calls them
 * ("SANDBOX", at most size bytes), else it is empty.
 */
void complete_words(const char *help, char *const *words, size_t n, complete_fn fn, void *arg,
                    char *ret_kind, size_t size);
