// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * `secret://NAME` in a value stands for a secret that is kept by name (src/secret). A policy is
 * stored and shown with the reference; the value takes its place only in what the wall is told.
 *
 *	"Bearer secret://OPENAI"
 */
#include "base/buf.h"

#include <stdbool.h>

#define SECRET_NAME_MAX  64
#define SECRET_NAME_SIZE (SECRET_NAME_MAX + 1)

/* A letter, then letters, digits, '_' and '-': SECRET_NAME_MAX bytes at most. */
bool secret_name_is_valid(const char *name);

/* The first reference in text, or NULL; name gets "" if what it names is not a name. */
const char *secret_reference_find(const char *text, char name[SECRET_NAME_SIZE]);
/* Whether text is a reference, perhaps behind the name of a scheme ("Bearer"), so that showing it
 * tells nothing. */
bool secret_reference_is_alone(const char *text);

/* Puts the value of the name into out; < 0 if there is none. */
typedef int (*secret_fill_fn)(const char *name, struct buf *out, void *arg);
/* Writes text to out with a value in place of each reference. < 0: one has none. */
must_check int secret_reference_fill(const char *text, secret_fill_fn fn, void *arg,
                                     struct buf *out);
