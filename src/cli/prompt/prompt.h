// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Lines typed at a terminal, with editing and history (libedit; ~/.editrc is honoured). */
#include "cli/remote/cancel.h"

struct prompt;

/* cancel: a signal ends the reading of a line. */
must_check int prompt_open(struct cancel *cancel, struct prompt **ret, struct err *err);
void prompt_close(struct prompt *p); /* NULL is fine */
DEFINE_FREEP(struct prompt, prompt_close)

/*
 * What may stand in place of the word at the end of a text: one on each line, for free(), or NULL.
 * *ret_len: how many bytes of the text are that word.
 */
typedef char *(*prompt_words_fn)(void *arg, const char *text, size_t *ret_len);
/* Who is asked when Tab is typed behind something; behind nothing it is an indent. */
void prompt_set_words(struct prompt *p, const char *indent, prompt_words_fn fn, void *arg);

/*
 * Reads a line behind the words in lead. 1: *ret is the line without its newline, for free(). 0:
 * the end of the input. -EINTR: a signal came, and the line is dropped.
 */
must_check int prompt_read(struct prompt *p, const char *lead, char **ret);
