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

/* A word that --help does not list: what it is called there. */
struct complete_place {
	char option[32];    /* whose value it is ("--template"), or "" */
	char kinds[96];     /* what it is called ("SANDBOX", "FROM"), each with a '\n' behind it */
	const char *before; /* the word that stands before it and is no option, or NULL */
	const char *prefix; /* what is typed of it */
	size_t glued;       /* so many bytes of it, "--option=", are not of the value */
};

/*
 * What stands behind a command, the last of words being the one that is under way ("" if nothing
 * is). Options and fixed words are told to fn; of others *ret says what they are.
 */
void complete_words(const char *help, char *const *words, size_t n, complete_fn fn, void *arg,
                    struct complete_place *ret);
