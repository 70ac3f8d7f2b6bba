// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The code interpreter's port. A context is known by its id; the default one of a language by the
 * language's name, whether it was made yet or not.
 */
#include "compat/e2b/envd/envd.h"
#include "sandbox/code/code_call.h"

/* "js", "TS", " python " and the like as we call them; NULL: no language of ours. */
const char *code_language(const char *name);
int code_no_context(const char *id, struct err *err); /* the words that clients know */

/* ascii.c: JSON text with everything outside ASCII escaped: clients decode piece by piece, and a
 * character that is cut would be lost. */
must_check int ascii_escape(const char *json, size_t len, struct buf *out);

/*
 * run_env.c: variables for one run. They are set by a call before it and taken back by one behind
 * it, in the language itself; calls of a context wait for each other, so nothing comes between.
 * NULL: the language has no such words. The caller's.
 */
char *run_env_set(const char *language, const json_t *env);
/* To what the sandbox gave each, or to nothing. */
char *run_env_unset(const char *language, const json_t *env, const json_t *of_sandbox);
