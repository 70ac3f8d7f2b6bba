// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What is typed at a prompt, line by line: is it a whole cell, or does more belong to it? */
#include <stdbool.h>

/*
 * text: the lines so far, with newlines between them. A guess by the language's brackets, quotes
 * and blocks: what is whole may still be wrong, and that is the interpreter's to say. As in
 * Python's own prompt, an empty line ends a block of Python; two empty lines end anything in the
 * other languages, should the guess be wrong.
 */
bool cell_is_complete(const char *language, const char *text);
