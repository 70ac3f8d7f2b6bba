// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The code interpreter's port. A context is known by its id; the default one of a language by the
 * language's name, even before it is made.
 */
#include "compat/e2b/envd/envd.h"
#include "sandbox/code/code_call.h"

/* Our name for "js", "TS", " python " and the like; NULL if we do not have the language. */
const char *code_language(const char *name);
int code_no_context(const char *id, struct err *err); /* the words that clients know */

/* ascii.c: JSON text with everything outside ASCII escaped, because clients decode piece by piece
 * and would lose a character that is cut in two. */
must_check int ascii_escape(const char *json, size_t len, struct buf *out);

/*
 * run_env.c: variables for one run. A call before it sets them and a call after it resets them, in
 * the language itself; calls of a context run one after the other, so nothing comes between. NULL
 * if the language cannot do this. The caller owns it.
 */
char *run_env_set(const char *language, const json_t *env);
/* Resets each to the sandbox's value, or unsets it. */
char *run_env_unset(const char *language, const json_t *env, const json_t *of_sandbox);
