// SPDX-License-Identifier: Apache-2.0
/*
 * All pages of the dashboard are one document, which looks at its own path (web/src/routes.ts). All
 * other files have the hash of their content in the name, so browsers may cache them for ever.
 *
 * Some paths also belong to another product's API (/sandboxes, /templates). There the page goes to
 * requests that accept HTML and have no key: browsers do that, API clients do not.
 *
 * Text from sandboxes is untrusted. The first defence is that the dashboard never makes markup of a
 * text (web/src/ui/el.ts); the second is the Content-Security-Policy sent here.
 */
#include "pages/pages.h"

#include "http/parse.h"

#include <string.h>
#include <strings.h>
#include <zlib.h>

#define INDEX "/index.html"
#define POLICY                                                                                     \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "    \
	"connect-src 'self'; font-src 'self'; frame-ancestors 'none'; base-uri 'none'; "           \
	"form-action 'self'; require-trusted-types-for 'script'"

/* These paths may have one part more. */
static const char *const parents[] = {"/sandboxes/"};
static const char *const singles[] = {"/sandboxes", "/templates", "/usage",  "/keys",
                                      "/secrets",   "/audit",     "/events", "/host",
                                      "/nodes",     "/settings",  "/login"};

static const struct page_rules document = {POLICY, "no-cache"};
static const struct page_rules asset = {POLICY, "public, max-age=31536000, immutable"};

const struct page_file *pages_find(const struct page_file *files, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(files[i].path, path) == 0)
			return &files[i];
	return NULL;
}

static bool is_page(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(singles); i++)
		if (strcmp(singles[i], path) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(parents); i++) {
		size_t len = strlen(parents[i]);

		if (strncmp(parents[i], path, len) == 0 && path[len] && !strchr(path + len, '/'))
			return true;
	}
	return false;
}

static bool wants_page(const struct http_req *req)
{
	const char *accept = http_header(req, "Accept");

	return accept && strstr(accept, "text/html") && !http_header(req, "Authorization") &&
	       !http_header(req, "X-API-Key");
}

/* Looks for "gzip" as a whole word whose weight is not zero. */
static bool takes_gzip(const struct http_req *req)
{
	const char *accept = http_header(req, "Accept-Encoding");

	for (const char *p = accept; p && *p; p += strcspn(p, ","), p += *p == ',') {
		size_t len;

		p += strspn(p, " \t");
		len = strcspn(p, " \t;,");
		if (len == 4 && strncasecmp(p, "gzip", 4) == 0)
			return strncmp(p + len, ";q=0", 4) != 0 || p[len + 4] == '.';
	}
	return false;
}

/* For clients that do not accept gzip. */
static int unpack(const struct page_file *f, unsigned char *to)
{
	z_stream z = {.next_in = unconst(f->gzip),
	              .avail_in = (uInt)f->gzip_len,
	              .next_out = to,
	              .avail_out = (uInt)f->len};
	int r;

	if (inflateInit2(&z, 15 + 16) != Z_OK)
		return -ENOMEM;
	r = inflate(&z, Z_FINISH);
	(void)inflateEnd(&z);
	return r == Z_STREAM_END && z.avail_out == 0 ? 0 : -EIO;
}

int pages_send(struct http_req *req, const struct page_file *f, const struct page_rules *rules,
               struct err *err)
{
	auto_free unsigned char *plain = NULL;
	int r = http_check_host(req, err);

	if (r < 0)
		return r;
	http_reply_header(req, "Cache-Control", rules->cache);
	http_reply_header(req, "Vary", "Accept, Accept-Encoding");
	http_reply_header(req, "Referrer-Policy", "no-referrer");
	http_reply_header(req, "Cross-Origin-Resource-Policy", "same-origin");
	http_reply_header(req, "Cross-Origin-Opener-Policy", "same-origin");
	http_reply_header(req, "Content-Security-Policy", rules->policy);
	if (takes_gzip(req)) {
		http_reply_header(req, "Content-Encoding", "gzip");
		http_reply(req, 200, f->type, f->gzip, f->gzip_len);
		return 1;
	}
	plain = xcalloc(1, f->len + 1);
	if (unpack(f, plain) < 0)
		return err_set(err, ERR_INTERNAL, 0, "a file for browsers is not whole");
	http_reply(req, 200, f->type, plain, f->len);
	return 1;
}

int pages_divert(struct http_req *req, struct err *err)
{
	const char *target = http_req_head(req)->target;
	const struct page_file *f = NULL;
	auto_free char *path = NULL;
	bool is_document;

	if (http_req_method(req) != HTTP_GET && http_req_method(req) != HTTP_HEAD)
		return 0;
	path = xstrndup(target, strcspn(target, "?"));
	is_document = strcmp(path, "/") == 0 || (is_page(path) && wants_page(req));
	if (is_document || strncmp(path, "/assets/", 8) == 0)
		f = pages_find(page_files, n_page_files, is_document ? INDEX : path);
	if (f)
		return pages_send(req, f, is_document ? &document : &asset, err);
	return docs_answer(req, path, err);
}

/* Of a route that exists, clients are told by JSON, whatever they accept. */
int pages_fail(struct http_req *req, const struct err *err)
{
	static const char page[] =
		"<!doctype html><meta charset=utf-8><title>No such page · cloche</title>"
		"<h1>There is no such page</h1><p>The <a href=\"/\">dashboard</a> and the "
		"<a href=\"/docs/\">documents</a> are here.\n";
	bool is_lost = err->code == ERR_UNAUTHENTICATED || err->code == ERR_NOT_FOUND;

	if (!is_lost || http_route(req) || !wants_page(req) ||
	    strncmp(http_req_head(req)->target, "/v1/", 4) == 0 ||
	    (http_req_method(req) != HTTP_GET && http_req_method(req) != HTTP_HEAD))
		return 0;
	http_reply_header(req, "Cache-Control", "no-store");
	http_reply_header(req, "Content-Security-Policy", POLICY);
	http_reply(req, 404, "text/html; charset=utf-8", page, strlen(page));
	return 1;
}
