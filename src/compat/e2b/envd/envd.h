// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Which sandbox an envd or interpreter request is for, and may who asks come in? By Host
 * (49983-ID.DOMAIN), where the daemon has a domain, else by the fields E2b-Sandbox-Id and
 * E2b-Sandbox-Port. What lets in is the sandbox's own token: finding looks at it, so there is no
 * way to reach a sandbox by forgetting to.
 */
#include "compat/e2b/frame/find.h"
#include "proto/start.h"

struct envd_caller {
	struct sandbox *s;
	const char *user; /* of Basic authorization, "" = the default */
	char user_buf[64];
};

/*
 * 1: it was paused and is woken, or the request was answered (there is no such sandbox); the
 * handler is to return that. < 0: err is the answer.
 */
must_check int envd_find(struct http_req *req, struct envd_caller *ret, struct err *err);
/* The same for a request that was let in and whose body has come since: it wakes nothing. */
must_check int envd_find_again(struct http_req *req, struct envd_caller *ret, struct err *err);
/* The same for the interpreter's port. Calls about contexts bear no token: they are let in from a
 * network whence somebody has shown it, or a key (notes.h). */
must_check int envd_find_execute(struct http_req *req, struct sandbox **ret, struct err *err);
must_check int envd_find_contexts(struct http_req *req, struct sandbox **ret, struct err *err);
/* By header or by a signature of the query (sign.h); op is "read" or "write". *ret_s is the first
 * sandbox that it is good for, where none is named. */
must_check int envd_find_signed(struct http_req *req, const char *op, struct envd_caller *ret,
                                struct err *err);
/* As struct preview has it: ports of sandboxes that were made by this wire are open to all, or to
 * who has the traffic token. */
int envd_admits(struct http_req *req, const char *id, uint16_t port, struct sandbox **ret,
                char ret_host[PREVIEW_HOST_SIZE]);
int envd_divert(struct http_req *req, struct err *err);
/* Whose place in the host name or fields the request has; "" = none. */
void envd_named(const struct http_req *req, char ret_id[ID_SIZE], unsigned *ret_port);

/* A path as E2B has it: "" and "~" are home, "~/x" is below it; the caller's. */
char *envd_path(const char *path);

/* file_entry.c: an entry of a directory: attributes come first, by envd_entry_note(). */
#define ENVD_ATTRIBUTES "user.e2b."
struct envd_entry {
	json_t *attributes; /* of the entry to come, or NULL */
};
void envd_entry_done(struct envd_entry *e);
/* true: it was an attribute, and is kept. */
bool envd_entry_note(struct envd_entry *e, const struct record *r);
/* RPC's way to say it; takes what was noted. */
void envd_put_entry(struct envd_entry *e, const struct record *r, struct json_writer *w,
                    const char *name);
/* The same for the replies of /files. */
void envd_put_file(struct envd_entry *e, const struct record *r, struct json_writer *w);
