// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Request targets and authorities: paths cut into decoded segments, queries into decoded pairs,
 * hosts into name and port. Nothing is normalised: a path that needs it ("..", "//") has no match.
 */
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

#define TARGET_SEGMENTS_MAX 16
#define TARGET_PAIRS_MAX    64

struct http_pair {
	const char *name, *value;
};

struct http_target {
	char *text;       /* holds all strings below */
	const char *path; /* as it was sent, without the query */
	const char *segments[TARGET_SEGMENTS_MAX];
	size_t n_segments; /* 0 for "/" */
	struct http_pair pairs[TARGET_PAIRS_MAX];
	size_t n_pairs;
};

/*
 * Splits first and decodes then, so that an encoded slash is data. '+' in a query is a blank, as in
 * HTML forms and most client libraries. Refuses bad escapes, NUL and invalid UTF-8 anywhere,
 * control bytes and dot segments in the path (ERR_BAD_REQUEST), and empty segments (ERR_NOT_FOUND).
 */
must_check int http_target_parse(const char *target, struct http_target *ret, struct err *err);
void http_target_done(struct http_target *t);

/* Appends text so that it is one path segment or one query value. */
must_check int http_escape(struct buf *out, const char *text);

/* Parses the whole text: "name", "name:port" or "[v6]:port". *ret_port is 0 if there is no port. */
#define HTTP_HOST_SIZE 256
must_check int http_host_parse(const char *host, char name[HTTP_HOST_SIZE], unsigned *ret_port);
