// SPDX-License-Identifier: Apache-2.0
/*
 * Decides whether a visitor may come in. A visit without a valid token is always refused in the
 * same way, whatever it is for.
 *
 * A visit to a paused or stopped sandbox resumes it, if a call would, and starts again when it
 * runs. If the server inside was stopped with it, the page that the visitor gets reloads until the
 * server answers.
 *
 * A token in the query is moved at once to a less visible place: by name into a cookie of that name
 * only, by path into the path.
 */
#include "preview/preview_private.h"

#include <string.h>
#include <strings.h>

#define PATH_START "/p/"
#define COOKIE_AGE "604800" /* a week; the token may end before */

static void read_token(struct visit *v)
{
	const char *header = http_header(v->req, "X-Cloche-Token");

	if (!v->token[0] && header)
		(void)!visit_read_token(header, strlen(header), v->token);
}

/*
 * A page of another origin can make the browser send our cookie. The browser then names the page's
 * origin in Origin, or in Sec-Fetch-Site for scripts, pictures and frames. Following a link from
 * anywhere is fine.
 */
static bool is_foreign(const struct visit *v)
{
	const char *origin = http_header(v->req, "Origin");
	const char *host = http_header(v->req, "Host");
	const char *site = http_header(v->req, "Sec-Fetch-Site");
	const char *dest = http_header(v->req, "Sec-Fetch-Dest");
	const char *authority = origin ? strstr(origin, "://") : NULL;

	if (origin && (!authority || !host || strcasecmp(authority + 3, host) != 0))
		return true;
	if (!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0)
		return false;
	return !dest || strcmp(dest, "document") != 0;
}

/* A neighbour's script can set cookies for our name too, so the right one need not be the first. */
static struct sandbox *find_by_cookie(struct visit *v)
{
	const char *rest = http_header(v->req, "Cookie");
	struct sandbox *s = NULL;

	if (is_foreign(v))
		return NULL;
	while (!s && visit_next_cookie(&rest, v->token))
		s = port_find(v->preview->fleet, v->id, v->port, v->token);
	return s;
}

static struct sandbox *find(struct visit *v)
{
	struct sandbox *s;

	if (!v->port)
		return NULL;
	read_token(v);
	s = port_find(v->preview->fleet, v->id, v->port, v->token[0] ? v->token : NULL);
	return s || v->token[0] || v->is_by_path ? s : find_by_cookie(v);
}

/* Redirects the browser to the URL without the token in the query. */
static int redirect(struct visit *v)
{
	auto_call(buf_done) struct buf text = BUF_INIT(PREVIEW_TARGET_MAX + 256);
	int r;

	if (v->is_by_path) {
		r = buf_printf(&text, PATH_START "%s/%u~%s%s%s", v->id, v->port, v->token,
		               v->target.data[0] == '/' ? "" : "/", v->target.data);
	} else {
		r = buf_printf(&text,
		               PREVIEW_COOKIE "=%s; Path=/; Max-Age=" COOKIE_AGE
		                              "; HttpOnly; SameSite=Lax%s",
		               v->token, http_is_tls(v->req) ? "; Secure" : "");
		if (r == 0)
			http_reply_header(v->req, "Set-Cookie", buf_str(&text));
		buf_truncate(&text, 0);
		if (r == 0)
			r = buf_append_str(&text, v->target.data);
	}
	if (r < 0)
		return r;
	http_reply_header(v->req, "Location", buf_str(&text));
	http_reply_header(v->req, "Cache-Control", "no-store");
	http_reply_header(v->req, "Referrer-Policy", "no-referrer");
	http_reply(v->req, 303, NULL, NULL, 0);
	return 0;
}

/* Relative links need the slash. Programs have no links, and some follow no redirect, so they are
 * let in. */
static int add_slash(struct visit *v)
{
	auto_call(buf_done) struct buf text = BUF_INIT(PREVIEW_TARGET_MAX + 256);
	int r = buf_printf(&text, "%s/%s", v->prefix, v->target.data);

	if (r < 0)
		return r;
	http_reply_header(v->req, "Location", buf_str(&text));
	http_reply(v->req, 308, NULL, NULL, 0);
	return 0;
}

static bool is_page_load(const struct visit *v)
{
	enum http_method method = http_req_method(v->req);

	return (method == HTTP_GET || method == HTTP_HEAD) && !http_req_head(v->req)->is_upgrade;
}

struct held { /* a visit that waits for its sandbox to run */
	const struct preview *preview;
	struct http_req *req; /* NULL: the visitor is gone */
};

static void on_visitor_gone(void *arg)
{
	((struct held *)arg)->req = NULL;
}

static void on_awake(struct sandbox *s, const struct err *err, void *arg)
{
	struct held held = *(struct held *)arg;
	struct err failure;

	(void)s;
	free(arg);
	if (!held.req)
		return;
	http_on_done(held.req, NULL, NULL);
	if (err)
		page_failed(held.req, err);
	else
		(void)!preview_divert(held.preview, held.req, &failure);
}

static int wake(struct visit *v, struct sandbox *s, struct err *err)
{
	struct held *held = xnew0(struct held);
	int r;

	*held = (struct held){.preview = v->preview, .req = v->req};
	http_on_done(v->req, on_visitor_gone, held);
	r = sandbox_resume(s, on_awake, held, err);
	if (r == 0)
		return 0;
	http_on_done(v->req, NULL, NULL);
	free(held);
	return r;
}

/* As find(), or lets another product's API decide. 1: that has answered. */
static int find_or_ask(struct visit *v, struct sandbox **ret)
{
	int r = 0;

	*ret = find(v);
	if (!*ret && v->port && !v->is_by_path && v->preview->admits)
		r = v->preview->admits(v->req, v->id, v->port, ret, v->host);
	v->is_admitted = r == 1;
	return r == 2;
}

static int visit(struct visit *v, struct err *err)
{
	struct sandbox *s;

	if (find_or_ask(v, &s) == 1)
		return 0;
	if (!s) {
		page_refused(v->req);
		return 0;
	}
	if (v->has_query && is_page_load(v))
		return redirect(v);
	if (v->is_by_path && v->target.data[0] != '/' && page_is_wanted(v->req))
		return add_slash(v);
	return sandbox_wakes_by_call(s) ? wake(v, s, err) : proxy_start(v, s, err);
}

int preview_divert(const struct preview *p, struct http_req *req, struct err *err)
{
	struct visit v = {.preview = p, .req = req, .target = BUF_INIT(PREVIEW_TARGET_MAX)};
	int r = visit_read(&v, http_header(req, "Host"), http_req_head(req)->target);

	if (r == 0)
		return 0;
	if (r < 0)
		r = err_set(err, ERR_URI_TOO_LONG, 0, "the path is too long");
	else if (v.is_by_path)
		r = http_check_host(req, err);
	else
		r = 0;
	if (r == 0)
		r = visit(&v, err);
	if (r < 0)
		page_failed(req, err);
	buf_done(&v.target);
	return 1;
}
