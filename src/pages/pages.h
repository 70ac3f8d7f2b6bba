// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Files that came with the program, for browsers: the dashboard. Everybody may have them; what they
 * show is asked for by the API. Each is kept as gzip made it.
 */
#include "http/server.h"

struct page_file {
	const char *path; /* "/assets/main-1f2e.js"; "/index.html" stands for every page */
	const char *type;
	const unsigned char *gzip;
	size_t gzip_len, len; /* as it is kept, and as it was */
};

/* Made by tools/build-web. */
extern const struct page_file page_files[];
extern const size_t n_page_files;

/* As divert() of struct http_app: 1 for a file or page, which it has answered. */
int pages_divert(struct http_req *req, struct err *err);
