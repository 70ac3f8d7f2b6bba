// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to the files of this directory. */
#include "http/parse.h"
#include "preview/preview.h"

#define PREVIEW_COOKIE     "cloche_port"
#define PREVIEW_TARGET_MAX HTTP_LINE_MAX

struct visit { /* a request to a port; strings live as long as the request */
	const struct preview *preview;
	struct http_req *req;
	char id[ID_SIZE];
	uint16_t port;
	bool is_by_path;
	char token[ID_SIZE];          /* "" = none was shown */
	bool has_query;               /* it came in the query */
	bool is_admitted;             /* by another face: no token of ours lets it in */
	char host[PREVIEW_HOST_SIZE]; /* what the server inside is asked as; "" = localhost */
	char prefix[160];  /* by path: "/p/ID/PORT~TOKEN", which the server inside does not see */
	struct buf target; /* path and query without the token and, by path, the prefix */
};

/*
 * visit.c: reads a request's Host (or NULL) and target into v->id, port, token, prefix and target.
 * 1: it is for a sandbox (port 0: for none that can exist); 0: it is not for us. -E2BIG.
 */
must_check int visit_read(struct visit *v, const char *host, const char *target);
/* The next token among the cookies in *rest (NULL: no cookies), which moves behind it. */
bool visit_next_cookie(const char **rest, char ret[ID_SIZE]);
/* Reads a token, or any text of its length. */
must_check int visit_read_token(const char *text, size_t len, char ret[ID_SIZE]);

/* heads.c: writes messages anew, without what the other side must not see. */
must_check int heads_request(const struct visit *v, struct buf *out);
/* Puts the fields of the server's answer into the reply. */
void heads_reply(const struct visit *v, const struct http_head *head);

/* page.c: answers of our own, as HTML or JSON. */
bool page_is_wanted(const struct http_req *req); /* whether a browser navigates */
void page_refused(struct http_req *req);
void page_failed(struct http_req *req, const struct err *err);

/* proxy.c: takes the visit over. Copies what it needs. */
must_check int proxy_start(struct visit *v, struct sandbox *s, struct err *err);
