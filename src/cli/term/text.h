// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Text for people. What comes from a sandbox or its daemon (names, tags, argv, messages) may hold
 * bytes that drive a terminal, so nothing of it is printed but through here.
 */
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

/*
 * Appends s with control bytes, invalid UTF-8 and characters that reorder or hide text written as
 * escapes (\n, \x1b, \u{202e}). What is left can only be seen.
 */
void text_escape(struct buf *out, const char *s, size_t len);
/* The same for text of several lines: newlines and tabs stay as they are. */
void text_escape_lines(struct buf *out, const char *s, size_t len);
/* As text_escape(), in memory of its own, for free(). */
char *text_escaped(const char *s);
size_t text_width(const char *s); /* characters, for s that came from text_escape() */

/* "3 s", "5 min", "2 h", "4 d" */
void text_age(uint64_t us, char text[16]);
/* "512 B", "1.4 MiB" */
void text_bytes(uint64_t bytes, char text[16]);

/* Columns as wide as their widest cell; the last one is not padded. */
struct table {
	const char *const *heads;
	size_t n_columns;
	char **cells; /* escaped, row after row */
	size_t n_cells;
};
void table_add(struct table *t, const char *cell); /* copied; NULL prints as "-" */
void table_print(const struct table *t);
void table_done(struct table *t);

/* "cloche: MESSAGE" and an indented hint to stderr. Gives EXIT_CLOCHE, so that it ends a command.
 */
int text_fail(const struct err *err);
