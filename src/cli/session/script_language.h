// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Which program runs a piece of code: by the language's name, a file's extension or its first line.
 */
#include "base/buf.h"
#include "base/err.h"

struct language {
	const char *name;
	const char *program;    /* that runs a file of it */
	const char *code_flag;  /* that takes code instead; NULL: it takes files only */
	const char *own_name;   /* stands for the script's name before its arguments, or NULL */
	const char *extensions; /* each with a blank behind it */
	const char *extension;  /* for code that has no file */
};

/* What people also write: "js" is "javascript". Any other name is itself, and so is NULL. */
const char *language_full_name(const char *name);
const struct language *language_by_name(const char *name);             /* NULL if unknown */
#define LANGUAGE_NAMES "python, javascript, typescript, bash, r, java" /* for errors */
const struct language *language_by_path(const char *path);    /* by its extension; NULL if none */
const struct language *language_by_shebang(const char *line); /* NULL if it names none of ours */
extern const struct language *const language_default;

#define SCRIPT_MAX (16 * 1024 * 1024)
/* All that fd has, for a ret of SCRIPT_MAX; name is for the error. */
must_check int script_read(int fd, const char *name, struct buf *ret, struct err *err);
