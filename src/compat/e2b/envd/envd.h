// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Finds the sandbox of an envd or interpreter request, and checks access. The sandbox is named by
 * Host (49983-ID.DOMAIN) if the daemon has a domain, else by the fields E2b-Sandbox-Id and
 * E2b-Sandbox-Port. Access needs the sandbox's own token; the look-up checks it, so the check
 * cannot be forgotten.
 */
#include "compat/e2b/frame/find.h"
#include "proto/start.h"

struct envd_caller {
	struct sandbox *s;
	const char *user; /* of Basic authorization, "" = the default */
	char user_buf[64];
};

/*
 * 1: it was paused and is being resumed, or the request was answered (there is no such sandbox);
 * the handler must return that. < 0: err is the answer.
 */
must_check int envd_find(struct http_req *req, struct envd_caller *ret, struct err *err);
/* The same for a request that was let in before its body came: it resumes nothing. */
must_check int envd_find_again(struct http_req *req, struct envd_caller *ret, struct err *err);
/* The same for the interpreter's port. Calls about contexts have no token: they are let in from a
 * network from which a token or key was shown before (notes.h). */
must_check int envd_find_execute(struct http_req *req, struct sandbox **ret, struct err *err);
must_check int envd_find_contexts(struct http_req *req, struct sandbox **ret, struct err *err);
/* By header or by a signature in the query (sign.h); op is "read" or "write". If no sandbox is
 * named, *ret_s is the first one that the signature is valid for. */
must_check int envd_find_signed(struct http_req *req, const char *op, struct envd_caller *ret,
                                struct err *err);
/* admits() of struct preview: ports of sandboxes that were made by this API are open to all, or to
 * holders of the traffic token. */
int envd_admits(struct http_req *req, const char *id, uint16_t port, struct sandbox **ret,
                char ret_host[PREVIEW_HOST_SIZE]);
int envd_divert(struct http_req *req, struct err *err);
/* The sandbox id and port in the request's host name or fields; "" = none. */
void envd_named(const struct http_req *req, char ret_id[ID_SIZE], unsigned *ret_port);

/* A path in E2B's form: "~" is home, "~/x" is below it, and "" is where programs begin; the caller
 * owns it. What is relative then begins at home: a file operation needs a cwd of "". */
char *envd_path(const struct sandbox *s, const char *path);

/* file_entry.c: an entry of a directory: attributes come first, by envd_entry_note(). */
#define ENVD_ATTRIBUTES "user.e2b."
struct envd_entry {
	json_t *attributes; /* of the entry to come, or NULL */
};
void envd_entry_done(struct envd_entry *e);
/* True if it was an attribute, which is kept. */
bool envd_entry_note(struct envd_entry *e, const struct record *r);
/* Writes the entry in the form of RPCs, with the noted attributes. */
void envd_put_entry(struct envd_entry *e, const struct record *r, struct json_writer *w,
                    const char *name);
/* The same for the replies of /files. */
void envd_put_file(struct envd_entry *e, const struct record *r, struct json_writer *w);
