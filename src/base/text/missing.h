// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What to do about a module, a program or a network that a sandbox lacks, told by the line with
 * which Python, Node, a shell or a client complains. The line is the sandbox's own word: nothing of
 * it gets into the hint but a name of plain letters.
 */
#include <stdbool.h>
#include <stddef.h>

#define MISSING_HINT_SIZE 400

/* "ModuleNotFoundError: No module named 'x'", "Error: Cannot find module 'x'", "sh: 1: x: not
 * found", "bash: line 1: x: command not found". False: it is none of them, or names nothing that a
 * package could be. */
bool missing_hint(const char *line, char hint[MISSING_HINT_SIZE]);
/* The same for the last such line of what a program has written. */
bool missing_hint_in(const char *text, size_t len, char hint[MISSING_HINT_SIZE]);
/* What to say of a program. */
#define MISSING_PROGRAM_HINT                                                                       \
	"take a template that has it, such as universal (--template universal), or add its "       \
	"Debian "                                                                                  \
	"package when you create the sandbox (--package apt:NAME)"
