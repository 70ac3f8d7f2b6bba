// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which state of each sealed record this node has taken last, and which one the database has, as
 * far as it has told. Those of this node are on its disk; removed ones too, the newest GONE_MAX.
 */
#include "base/id.h"
#include "store/store.h"

#include <uthash.h>

struct sealed_mark {
	char name[ID_SIZE + 8]; /* KIND/ID */
	char kind[8], id[ID_SIZE], project_id[ID_SIZE];
	uint64_t version, changed_us; /* 0: this node has taken none */
	bool is_gone;
	uint64_t there_version, there_changed_us; /* of the database; 0: it has told of none */
	bool is_gone_there;
	bool is_said; /* to the database, since the last start of all */
	UT_hash_handle hh;
};

struct sealed_marks;

struct sealed_marks *sealed_marks_new(struct store *store); /* NULL: nothing is kept */
void sealed_marks_free(struct sealed_marks *s);
/* False: a text is too long. */
bool sealed_mark_name(struct sealed_mark *m, const char *kind, const char *id,
                      const char *project_id);
/* The one that there is, or a new one without a state. NULL: a text is too long, or there are too
 * many. */
struct sealed_mark *sealed_marks_make(struct sealed_marks *s, const char *kind, const char *id,
                                      const char *project_id);
/* This node has taken that state: on disk first. */
must_check int sealed_marks_keep(struct sealed_marks *s, const struct sealed_mark *is,
                                 struct err *err);
/* Whether a state is later than the one that this node has taken. */
bool sealed_mark_is_later(uint64_t version, uint64_t changed_us, const struct sealed_mark *m);
bool sealed_mark_is_earlier(const struct sealed_mark *m); /* than the database's */
/* fn returning false ends it. */
void sealed_marks_each(struct sealed_marks *s, bool (*fn)(struct sealed_mark *m, void *arg),
                       void *arg);
void sealed_marks_begin_again(struct sealed_marks *s); /* what the database has is not known */
void sealed_marks_forget_project(struct sealed_marks *s, const char *project_id);
