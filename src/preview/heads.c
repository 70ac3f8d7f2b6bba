// SPDX-License-Identifier: Apache-2.0
/*
 * Heads are written anew, field by field (http/relay/relay_heads.h). Left out of requests: fields
 * of one connection, fields that say who we are, our keys and tokens. Left out of replies: fields
 * of one connection, fields that act on the whole site (all names below the domain are one site to
 * a browser), and, by path, everything that a browser would keep for our whole address.
 */
#include "http/relay/relay_heads.h"
#include "preview/preview_private.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define FORWARDED "X-Forwarded-" /* and whatever follows */

static const char *const ours_in[] = {
	"Host", "Expect", "Forwarded", "X-Cloche-Token", "X-Real-IP", "E2B-Traffic-Access-Token",
	NULL};
static const char *const ours_out[] = {
	"Server", "Date", "X-Request-Id", "X-Content-Type-Options", "Origin-Agent-Cluster", NULL};
/* Fields that act beyond the page's own name, or on how the name is reached: they could delete
 * cookies of the whole site, bind sessions, or redirect names below. */
static const char *const of_the_site[] = {"Clear-Site-Data",
                                          "Strict-Transport-Security",
                                          "Public-Key-Pins",
                                          "Expect-CT",
                                          "Alt-Svc",
                                          "NEL",
                                          "Report-To",
                                          "Set-Cookie2",
                                          "Set-Login",
                                          "Secure-Session-Registration",
                                          "Sec-Session-Registration",
                                          NULL};
/* Fields that a browser keeps for an address, or that grant it something. */
static const char *const kept_by_browser[] = {"Set-Cookie",
                                              "Service-Worker-Allowed",
                                              "Accept-CH",
                                              "Reporting-Endpoints",
                                              "Referrer-Policy",
                                              "SourceMap",
                                              NULL};

static bool is_ours_in(const char *field)
{
	return relay_field_begins(field, FORWARDED) || relay_field_is_in(ours_in, field);
}

/* A key of this daemon, which a client sends here by mistake. Other keys are for the server. */
static bool is_our_key(const struct visit *v, struct http_field f)
{
	const char *secret = f.value;

	if (strcasecmp(f.name, "Authorization") == 0) {
		if (strncasecmp(secret, "Bearer ", 7) != 0)
			return false;
		secret += 7;
	} else if (strcasecmp(f.name, "X-API-Key") != 0) {
		return false;
	}
	return strncmp(secret, "clo_", 4) == 0 || keyring_check(v->preview->keyring, secret);
}

/* Writes a Cookie field without our cookies; nothing if none is left. */
static int put_cookies(struct buf *out, const char *value)
{
	auto_call(buf_done) struct buf left = BUF_INIT(HTTP_HEAD_MAX);
	int r = 0;

	while (r == 0 && *value) {
		size_t len = strcspn(value, ";");

		value += MIN(strspn(value, " "), len);
		len = strcspn(value, ";");
		if (len > 0 && strncmp(value, PREVIEW_COOKIE "=", sizeof(PREVIEW_COOKIE)) != 0)
			r = buf_printf(&left, "%s%.*s", left.len > 0 ? "; " : "", (int)len, value);
		value += len + (value[len] == ';');
	}
	if (r == 0 && left.len > 0)
		r = http_encode_field(out, "Cookie", buf_str(&left));
	return r;
}

static int put_field_in(const struct visit *v, struct buf *out, struct http_field f)
{
	const struct http_head *head = http_req_head(v->req);

	if (relay_field_is_of_connection(head, f.name) || is_ours_in(f.name) || is_our_key(v, f))
		return 0;
	if (strcasecmp(f.name, "Cookie") == 0)
		return v->is_by_path ? 0 : put_cookies(out, f.value);
	return http_encode_field(out, f.name, f.value);
}

/* Development servers answer only to their own name, so that is the Host; the browser's goes into
 * X-Forwarded-Host. */
static int put_ours(const struct visit *v, struct buf *out)
{
	const char *host = http_header(v->req, "Host");
	char own[32];
	int r;

	(void)snprintf(own, sizeof(own), "localhost:%u", v->port);
	r = http_encode_field(out, "Host", v->host[0] ? v->host : own);
	if (r == 0)
		r = buf_printf(out, "X-Forwarded-Proto: %s\r\n",
		               http_is_tls(v->req) ? "https" : "http");

	if (r == 0 && host)
		r = http_encode_field(out, "X-Forwarded-Host", host);
	if (r == 0 && !http_req_head(v->req)->is_upgrade)
		return buf_append_str(out, "Connection: close\r\n");
	return r == 0 ? relay_put_upgrade(http_req_head(v->req), out) : r;
}

int heads_request(const struct visit *v, struct buf *out)
{
	const struct http_head *head = http_req_head(v->req);
	bool is_bare = v->is_by_path && v->target.data[0] != '/';
	int r = buf_printf(out, "%s %s%s HTTP/1.1\r\n", head->method, is_bare ? "/" : "",
	                   v->target.data);

	if (r == 0)
		r = put_ours(v, out);
	if (r == 0)
		r = relay_put_framing(head, out);
	for (size_t i = 0; r == 0 && i < head->n_fields; i++)
		r = put_field_in(v, out, http_head_field(head, i));
	return r == 0 ? buf_append(out, "\r\n", 2) : r;
}

/* By name, a sandbox may not set a cookie for other names, or one with our name. A browser drops
 * blanks around names, and sends "=a=b" back as "a=b". */
static bool is_foreign_cookie(const char *value)
{
	const char *name = value + strspn(value, " \t=");
	size_t len = strlen(PREVIEW_COOKIE);

	if (strncmp(name, PREVIEW_COOKIE, len) == 0 && strchr("= \t", name[len]))
		return true;
	for (const char *p = strchr(value, ';'); p; p = strchr(p, ';')) {
		p += 1 + strspn(p + 1, " \t");
		if (strncasecmp(p, "domain", 6) == 0 && strchr("= \t", p[6]))
			return true;
	}
	return false;
}

/* The path of a URL that leads to this same server, by its own name or the browser's; NULL for any
 * other. "//host" is another server too. */
static const char *find_own_path(const struct visit *v, const char *url)
{
	/* By name the server may have a reason to name the address, such as another scheme. */
	const char *host = v->is_by_path ? http_header(v->req, "Host") : NULL;
	char own[32];
	size_t len;

	if (url[0] == '/' && url[1] != '/')
		return url;
	if (strncasecmp(url, "http://", 7) == 0)
		url += 7;
	else if (strncasecmp(url, "https://", 8) == 0)
		url += 8;
	else
		return NULL;
	(void)snprintf(own, sizeof(own), "localhost:%u", v->port);
	len = strcspn(url, "/?#");
	if ((len == strlen(own) && strncasecmp(url, own, len) == 0) ||
	    (host && len == strlen(host) && strncasecmp(url, host, len) == 0))
		return url + len;
	return NULL;
}

/* For the browser, the server's paths are below the prefix. */
static void put_location(const struct visit *v, const char *value)
{
	auto_call(buf_done) struct buf text = BUF_INIT(HTTP_HEAD_MAX);
	const char *path = find_own_path(v, value);

	if (!path)
		http_reply_header(v->req, "Location", value);
	else if (buf_printf(&text, "%s%s%s", v->is_by_path ? v->prefix : "",
	                    path[0] == '/' ? "" : "/", path) == 0)
		http_reply_header(v->req, "Location", buf_str(&text));
}

static void put_field_out(const struct visit *v, const struct http_head *head, struct http_field f)
{
	if (relay_field_is_of_connection(head, f.name) || relay_field_is_in(ours_out, f.name) ||
	    relay_field_is_in(of_the_site, f.name))
		return;
	if (v->is_by_path && relay_field_is_in(kept_by_browser, f.name))
		return;
	if (strcasecmp(f.name, "Set-Cookie") == 0 && is_foreign_cookie(f.value))
		return;
	if (strcasecmp(f.name, "Location") == 0)
		put_location(v, f.value);
	else
		http_reply_header(v->req, f.name, f.value);
}

void heads_reply(const struct visit *v, const struct http_head *head)
{
	for (size_t i = 0; i < head->n_fields; i++)
		put_field_out(v, head, http_head_field(head, i));
	relay_reply_upgrade(v->req, head);
	/* Keeps a page from widening its origin to the common domain (document.domain). */
	http_reply_header(v->req, "Origin-Agent-Cluster", "?1");
	if (!v->is_by_path)
		return;
	http_reply_header(v->req, "Content-Security-Policy",
	                  "sandbox allow-scripts allow-forms allow-modals allow-popups "
	                  "allow-downloads");
	http_reply_header(v->req, "Referrer-Policy", "no-referrer");
	/* The page has no origin, so its own scripts count as foreign without this. */
	if (!http_head_find(head, "Access-Control-Allow-Origin"))
		http_reply_header(v->req, "Access-Control-Allow-Origin", "*");
}
