// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Reads and writes a struct as the JSON of its row in the store. A table has one entry for each
 * field. A field that an older row lacks leaves its member unchanged.
 */
#include "base/json/json.h"

enum row_kind {
	ROW_U64,    /* uint64_t */
	ROW_U32,    /* uint32_t or an enum */
	ROW_BOOL,   /* bool */
	ROW_TEXT,   /* char[]; a longer text is cut */
	ROW_STRING, /* char *, owned; NULL = none */
	ROW_OBJECT, /* json_t *, owned; NULL = none */
	ROW_ARRAY,  /* the same, of up to max items */
};

struct row_field {
	const char *name;
	enum row_kind kind;
	size_t offset, size; /* of the member */
	bool is_required;
	uint64_t max; /* 0 = the kind's own most (json.h), of ROW_U32 what it holds */
};

#define ROW_FIELD(of, name_, kind_, member, ...)                                                   \
	{                                                                                          \
		.name = name_, .kind = kind_, .offset = offsetof(struct of, member),               \
		.size = sizeof(typeof(((struct of *)0)->member)), __VA_ARGS__                      \
	}

void row_fields_put(const struct row_field *fields, size_t n, const void *from,
                    struct json_writer *w);
/* others: fields of the same object that are not members of the struct. The struct must own nothing
 * yet; after a failure it owns nothing either. */
must_check int row_fields_read(const struct row_field *fields, size_t n,
                               const struct json_field *others, size_t n_others,
                               const json_t *object, void *ret);
