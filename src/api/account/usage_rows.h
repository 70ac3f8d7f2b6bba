// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Rows of usage as a reply, JSON or CSV: the same names and figures in both. */
#include "api/api.h"
#include "api/frame/reply.h"

enum usage_group { GROUP_PROJECT, GROUP_SANDBOX, GROUP_DAY, GROUP_COUNT };
const char *usage_group_name(enum usage_group group);

struct usage_rows {
	const struct api *api;
	enum usage_group group;
	bool is_csv;
	struct reply reply; /* CSV: its body alone */
	int error;          /* of CSV that grew too large */
	struct usage total;
};

/* from and to are days as text; the caller ends with usage_rows_send(), which frees. */
void usage_rows_begin(struct usage_rows *rows, const struct api *api, enum usage_group group,
                      bool is_csv, const char *from, const char *to);
void usage_rows_put(struct usage_rows *rows, const struct usage_row *row);
must_check int usage_rows_send(struct usage_rows *rows, struct http_req *req,
                               const char *next_cursor, struct err *err);

/* The figures and what they cost, into an open object. */
void usage_put_figures(const struct api *api, struct json_writer *w, const struct usage *u);
