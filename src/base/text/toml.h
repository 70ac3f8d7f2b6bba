// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The part of TOML that settings, recipes and evals need: [sections] (also [with.dots]), key =
 * value (keys may be quoted), strings ("basic" with \\ \" \n \t, 'literal', and both in three
 * quotes over several lines), bare numbers and booleans, arrays of strings over one or more lines,
 * and comments. Everything else of TOML is refused with file and line.
 */
#include "base/err.h"

enum toml_kind { TOML_STRING, TOML_BARE, TOML_ARRAY, TOML_SECTION };

struct toml_entry {          /* borrowed for the call */
	const char *section; /* "" above the first one; its parts are joined by dots */
	const char *key;     /* of TOML_SECTION: "" */
	enum toml_kind kind;
	const char *text;         /* string or bare word */
	const char *const *items; /* array: n_items strings */
	size_t n_items;
	unsigned line; /* of its key, from 1 */
};

#define TOML_ITEMS_MAX 256

typedef int (*toml_fn)(const struct toml_entry *entry, void *arg, struct err *err);

/* Calls fn for each [section] and each key in order. An error, also one of fn's, begins with
 * "NAME:LINE: ". */
must_check int toml_parse(const char *name, const char *text, size_t len, toml_fn fn, void *arg,
                          struct err *err);
