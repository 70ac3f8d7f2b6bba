// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Files that came with the program, for browsers: the dashboard, the documents below /docs/, and
 * the licence notices, /licences. Anybody may read them; the dashboard gets its data from the API.
 * Each file is stored compressed by gzip.
 */
#include "http/server.h"

struct page_file {
	const char *path; /* "/assets/main-1f2e.js"; "/index.html" stands for every page */
	const char *type;
	const unsigned char *gzip;
	size_t gzip_len, len; /* compressed, and unpacked */
};

/* Made by tools/build-web. */
extern const struct page_file page_files[];
extern const size_t n_page_files;

/* Made by tools/build-docs: paths are whole, "/docs/guides/files". */
extern const struct page_file doc_files[];
extern const size_t n_doc_files;

/* Made by tools/build-notices: one, "/licences". */
extern const struct page_file notice_files[];
extern const size_t n_notice_files;

struct page_rules {
	const char *policy; /* Content-Security-Policy */
	const char *cache;  /* Cache-Control */
};

/* Borrowed, or NULL. */
const struct page_file *pages_find(const struct page_file *files, size_t n, const char *path);
/* Answers with the file: 1. */
must_check int pages_send(struct http_req *req, const struct page_file *f,
                          const struct page_rules *rules, struct err *err);
/* The same for the document at that path; 0 if the path is not below /docs. */
must_check int docs_answer(struct http_req *req, const char *path, struct err *err);

/* The divert() of struct http_app. Returns 1 if it has answered with a file or page. */
int pages_divert(struct http_req *req, struct err *err);
/* 1: answered. A browser that asks for what is not there is told so in a page. */
int pages_fail(struct http_req *req, const struct err *err);
