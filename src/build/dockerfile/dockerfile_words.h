// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The words of an instruction: quotes, escapes and variables, as Docker reads them.
 *
 *	$x ${x} ${x:-word} ${x-word} ${x:+word} ${x+word} ${x:?word} ${x?word}
 *
 * Inside '…' nothing is expanded. No I/O.
 */
#include "base/err.h"
#include "base/json/json.h"

#define DOCKER_WORD_MAX  (64 * 1024) /* bytes of one word, expanded */
#define DOCKER_WORDS_MAX 1024

/* How to read words, and what variables there are. */
struct docker_scope {
	char escape;
	unsigned line; /* for errors */
	/* The value of a variable, or NULL. */
	const char *(*find)(const char *name, void *arg);
	void *arg;
	bool keeps_quotes; /* of here-documents: quotes are characters like others */
};

/* All of the text as one word; the caller frees. */
must_check int docker_expand(const struct docker_scope *s, const char *text, char **ret,
                             struct err *err);
/* Its words, an array of strings; the caller owns it. A variable that expands to several words
 * stays one. */
must_check int docker_split(const struct docker_scope *s, const char *text, json_t **ret,
                            struct err *err);
/* NAME=VALUE pairs, an array of arrays of two; "NAME value and so on" too if it may be. */
must_check int docker_pairs(const struct docker_scope *s, const char *text, bool may_be_old,
                            json_t **ret, struct err *err);
/* A JSON array of strings; NULL if the text is none, and then it is for the shell. */
json_t *docker_json_words(const char *text);
/* Takes a flag "--NAME[=VALUE]" from the beginning of the text: 1, or 0 if there is none. The
 * caller frees both; *ret_value is NULL without a value. */
int docker_take_flag(const char **text, char **ret_name, char **ret_value);
