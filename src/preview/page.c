// SPDX-License-Identifier: Apache-2.0
/* The daemon's own answers to visitors: JSON for programs, and for browsers a page that reloads by
 * itself.
 */
#include "preview/preview_private.h"

#include <string.h>

#define PAGE_MAX 4096

static const char page[] =
	"<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">%s<title>%s</title>"
	"<style>body{font:16px/1.5 system-ui,sans-serif;max-width:34em;margin:20vh auto;"
	"padding:0 1em;color:#222}h1{font-size:1.4em}p{color:#555}</style>"
	"<h1>%s</h1><p>%s</p></html>\n";

bool page_is_wanted(const struct http_req *req)
{
	const char *accept = http_header(req, "Accept");

	return accept && strstr(accept, "text/html");
}

/* The texts are our own and need no HTML escapes. */
static void send_page(struct http_req *req, int status, bool tries_again, const char *title,
                      const char *text)
{
	auto_call(buf_done) struct buf body = BUF_INIT(PAGE_MAX);

	/* There are no scripts, but without allow-scripts a page cannot reload by itself. */
	http_reply_header(req, "Content-Security-Policy",
	                  "default-src 'none'; style-src 'unsafe-inline'; sandbox allow-scripts");
	http_reply_header(req, "Cache-Control", "no-store");
	if (buf_printf(&body, page,
	               tries_again ? "<meta http-equiv=\"refresh\" content=\"1\">" : "", title,
	               title, text) < 0)
		return;
	http_reply(req, status, "text/html; charset=utf-8", body.data, body.len);
}

void page_refused(struct http_req *req)
{
	static const char text[] = "This address needs a valid link. Whoever runs the sandbox can "
				   "make one with: cloche url ID PORT";
	struct err err;

	if (page_is_wanted(req)) {
		send_page(req, 401, /* tries_again= */ false, "Not open to you", text);
		return;
	}
	(void)err_set(&err, ERR_UNAUTHENTICATED, 0, "this port is not open, or not to you");
	(void)err_hint(&err,
	               "'cloche url ID PORT' opens it and prints a link; programs send its token "
	               "as X-Cloche-Token");
	http_reply_err(req, &err);
}

void page_failed(struct http_req *req, const struct err *err)
{
	struct err guest = *err;

	if (err->code == ERR_UNAVAILABLE) { /* nothing listens yet */
		http_reply_header(req, "Retry-After", "1");
		if (page_is_wanted(req)) {
			send_page(req, 502, /* tries_again= */ true, "Nothing is listening yet",
			          "The sandbox runs, but no server answers on this port. This page "
			          "tries again by itself.");
			return;
		}
		guest.code = ERR_GUEST;
	}
	if (page_is_wanted(req)) {
		send_page(req, err_code_status(guest.code), /* tries_again= */ false,
		          "This did not work",
		          err->code == ERR_GUEST ? "The server in the sandbox gave no answer that "
		                                   "can be understood."
		                                 : "The sandbox cannot be reached.");
		return;
	}
	http_reply_err(req, &guest);
}
