// SPDX-License-Identifier: Apache-2.0
/*
 * The documents of docs/: plain HTML pages made by tools/build-docs, each also as Markdown. Their
 * one script searches them, with an index that it gets from here. The licence notices are served
 * here too, as plain text.
 */
#include "pages/pages.h"

#include <string.h>

static const struct page_rules rules = {
	.policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
		  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
	.cache = "no-cache",
};

static int redirect(struct http_req *req, const char *to, struct err *err)
{
	int r = http_check_host(req, err);

	if (r < 0)
		return r;
	http_reply_header(req, "Location", to);
	http_reply(req, 308, "text/plain", NULL, 0);
	return 1;
}

int docs_answer(struct http_req *req, const char *path, struct err *err)
{
	const struct page_file *f = pages_find(doc_files, n_doc_files, path);

	if (!f)
		f = pages_find(notice_files, n_notice_files, path);
	if (f)
		return pages_send(req, f, &rules, err);
	if (strcmp(path, "/docs") == 0)
		return redirect(req, "/docs/", err);
	if (strncmp(path, "/docs/", 6) != 0)
		return 0;
	(void)err_set(err, ERR_NOT_FOUND, 0, "there is no such document");
	return err_hint(err, "/docs/ lists all of them");
}
