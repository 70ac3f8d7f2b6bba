// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A YAML file as a tree of values, each with its line. libyaml parses; it is loaded when the first
 * file is read, so that the daemon, which is the same program, never has it in memory.
 *
 * The writer of the file is hostile until shown otherwise. So the text, the number of values, their
 * depth, and what they would be if each alias were written out are bounded. An alias is the same
 * value again, not a copy. Tags, a second document, keys that are no text, and a key that comes
 * twice are refused. "<<" takes in what another mapping has, as Compose files do.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define YAML_TEXT_MAX   ((size_t)256 * 1024)
#define YAML_VALUES_MAX 20000
#define YAML_DEPTH_MAX  24

enum yaml_kind {
	YAML_TEXT,
	YAML_LIST,
	YAML_MAP,
};

struct yaml_value {
	enum yaml_kind kind;
	unsigned line;
	bool is_null; /* a plain ~, null, or nothing at all */
	char *text;   /* of YAML_TEXT; no NUL is in it */
	size_t n;     /* items of a list, entries of a map */
	struct yaml_value **items;
	struct yaml_value **keys; /* of a map: YAML_TEXT, one for each item */
	size_t weight;            /* values in it, with every alias written out */
	bool is_open;             /* its end has not come: an alias in it must not mean it */
};

struct yaml_file;

/* name is told in errors, as "NAME:LINE: …". On success the caller owns *ret. */
must_check int yaml_read(const char *name, const char *text, size_t len, struct yaml_file **ret,
                         struct err *err);
const struct yaml_value *yaml_top(const struct yaml_file *file); /* borrowed */
void yaml_free(struct yaml_file *file);                          /* NULL is fine */
DEFINE_FREEP(struct yaml_file, yaml_free)
const struct yaml_value *yaml_get(const struct yaml_value *map, const char *key); /* or NULL */
