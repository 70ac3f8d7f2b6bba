// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One HTTP request to somebody outside, and its reply. The dialer makes the connection, TLS is
 * spoken if the URL says https, and the whole call has one deadline. A redirect is a status like
 * any other: it is not followed, since the next address was not named by whoever named this one.
 *
 *	dialling --> writing --> reading --> over
 */
#include "http/parse.h"
#include "outgoing/dialer.h"

struct outgoing_call;
struct tls_context;

/* What every call goes through. */
struct outgoing {
	struct loop *loop;
	struct dialer *dialer;
	/* Tenants name the URLs: what the settings open besides (daemon/dial_rules.h), such as a
	 * collector on loopback, is closed to it. */
	bool is_tenants;
	struct tls_context *tls; /* NULL: this host has no certificates to check a server with */
};

struct outgoing_request {
	const char *method;
	const char *url; /* http or https, as url_parse() */
	/* Beside Host, User-Agent, Content-Length and Connection. */
	const struct http_field *fields;
	size_t n_fields;
	const void *body;
	size_t len;
	/* How long a body of the reply may be. 0: the status is enough, and no body is read. */
	size_t reply_max;
	uint64_t patience_us; /* once connected; 0: 15 seconds */
};

struct outgoing_reply {
	int status;                   /* 0: there is none … */
	const char *why;              /* … because */
	const struct http_head *head; /* NULL if there is none */
	const char *body;             /* with a NUL behind it, which len does not count */
	size_t len;
};
/* Called once, from the loop; what reply points to is valid until it returns. The callee calls
 * outgoing_call_free(). */
typedef void (*outgoing_fn)(const struct outgoing_reply *reply, void *arg);

/* Copies all that it needs of the request. Failures of every kind are told by fn. */
struct outgoing_call *outgoing_call_new(const struct outgoing *outgoing,
                                        const struct outgoing_request *request, outgoing_fn fn,
                                        void *arg);
void outgoing_call_free(struct outgoing_call *c); /* fn is not called any more; NULL is fine */
