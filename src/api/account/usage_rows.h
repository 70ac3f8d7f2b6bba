// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Rows of usage as a reply, JSON or CSV: the same names and figures in both. */
#include "api/api.h"
#include "api/frame/reply.h"

enum usage_group { GROUP_PROJECT, GROUP_SANDBOX, GROUP_DAY, GROUP_COUNT };
const char *usage_group_name(enum usage_group group);

struct usage_query { /* what is asked for */
	enum usage_group group;
	int32_t from, to;
	const char *project_id; /* NULL = all */
	char after_id[ID_SIZE];
	uint64_t limit;
	bool is_csv;
};

struct usage_rows {
	const struct api *api;
	enum usage_group group;
	bool is_csv;
	struct reply reply; /* CSV: its body alone */
	int error;          /* of CSV that grew too large */
	struct usage total;
	/* Further fields of JSON; or NULL. */
	void (*put_more)(struct json_writer *w, const void *arg);
	const void *more_arg;
};

/* The caller ends with usage_rows_send(), which frees. */
void usage_rows_begin(struct usage_rows *rows, const struct api *api, const struct usage_query *q);
void usage_rows_put(struct usage_rows *rows, const struct usage_row *row);
must_check int usage_rows_send(struct usage_rows *rows, struct http_req *req,
                               const char *next_cursor, struct err *err);

/* The figures and what they cost, into an open object. */
void usage_put_figures(const struct api *api, struct json_writer *w, const struct usage *u);

/* This node's rows, in order; a page of those of sandboxes. */
typedef void (*usage_put_fn)(const struct usage_row *row, void *arg);
struct usage_page {
	bool has_more;
	char last_id[ID_SIZE]; /* then: all up to this one were looked at */
};
must_check int usage_own_rows(const struct api *api, const struct usage_query *q, usage_put_fn put,
                              void *arg, struct usage_page *ret, struct err *err);
