// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the parts of the probe share: how an attempt is told, and the tables of attempts.
 *
 * An attempt prints one JSON line, {"probe": NAME, "ret": N, "errno": "EPERM"}; errno is "" where
 * the call succeeded. It goes straight to fd 1: a line is there even when the next attempt kills
 * the process.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

struct probe {
	const char *name;
	int (*run)(int argc, char **argv); /* argv[0] is the first word behind the name */
	const char *usage;
};

/* A NULL name ends each. */
extern const struct probe escape_probes[], foreign_probes[], file_probes[], load_probes[],
	breach_probes[];

/* Tries all it can in QEMU's place, each by its words through run. */
void probe_as_qemu(int (*run)(int argc, char **argv));

/* Tells a call's result; ret < 0 means that errno says why. */
void tell(const char *name, long ret);
/* The same with a word behind the name, as in "unshare:NEWUSER". */
void tell_case(const char *name, const char *word, long ret);
/* A text for what is not a call's result; quotes and control bytes are escaped. */
void tell_text(const char *name, const char *text);

/* Whether this runs as an exec of a sandbox. What could hurt anywhere else asks first. */
bool is_inside(void);

/* A decimal word, or fallback where it is missing or no number. */
long word_number(int argc, char **argv, int index, long fallback);

/* Runs fn in a child; its exit status, or 128 + signal. */
int in_child(void (*fn)(const void *arg), const void *arg);

/* Calls fn for each entry but "." and ".."; returns how many there were, or -1. Closes dir_fd. */
long each_entry(int dir_fd, void (*fn)(const char *name, void *arg), void *arg);
