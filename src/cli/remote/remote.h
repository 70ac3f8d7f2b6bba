// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The daemon, as a command sees it: where it is, the key that opens it, and one connection with one
 * call at a time. A refusal of the API becomes the struct err that the daemon had.
 *
 * Where: --url, else CLOCHE_URL, else the usual places on this machine: the unix socket, then
 * 127.0.0.1:7070. The key: --key-file, else CLOCHE_API_KEY, else what `cloche login` has
 * kept for that very address, else, at the usual places only, admin.key where it can be read: it is
 * not sent to an address that somebody named. CLOCHE_PROJECT says which of a person's projects.
 */
#include "base/json/json.h"
#include "cli/term/opts.h"
#include "http/client.h"

#define REMOTE_SOCKET    "/run/cloche/cloche.sock"
#define REMOTE_TCP       "http://127.0.0.1:7070"
#define REMOTE_ADMIN_KEY "/var/lib/cloche/admin.key"

#define REMOTE_FIELDS_MAX 6

struct remote;

/* -ENOTCONN: nobody said where, and no daemon is at the usual places. */
must_check int remote_open(const struct opts_common *common, struct remote **ret, struct err *err);
/* The same without any key. */
must_check int remote_open_keyless(const struct opts_common *common, struct remote **ret,
                                   struct err *err);
must_check int remote_open_at(const char *url, const char *key, struct remote **ret,
                              struct err *err); /* key may be NULL */
/* Another connection to the same daemon, for another thread. */
must_check int remote_open_again(const struct remote *other, struct remote **ret, struct err *err);
void remote_close(struct remote *r); /* NULL is fine */
DEFINE_FREEP(struct remote, remote_close)
struct http_client *remote_client(struct remote *r);
const char *remote_url(const struct remote *r);
const char *remote_key(const struct remote *r); /* NULL: none is sent */
/* What calls are doing from now on, for who waits at a terminal (waiting.h); borrowed. NULL, as at
 * first: nobody is told. */
void remote_note(struct remote *r, const char *what);
/* The next call is a create that may wait for room: who waits at a terminal is told its place in
 * the line, too. */
void remote_note_queue(struct remote *r);

/* A path of the API: remote_path("sandboxes", id, "execs"), each segment escaped. For free(). */
#define remote_path(...)                                                                           \
	remote_path_of((const char *const[]){__VA_ARGS__},                                         \
	               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
char *remote_path_of(const char *const *segments, size_t n);
/* The same with one more query parameter; frees the old path. */
char *remote_query(char *path, const char *name, const char *value);

/* One call with a JSON body (NULL = none) and a JSON answer (ret NULL = not wanted). */
must_check int remote_call(struct remote *r, const char *method, const char *path,
                           const json_t *body, json_t **ret, struct err *err);

/* Adds all pages of a list, the array `name` of each, to *list. */
must_check int remote_list(struct remote *r, const char *path, const char *name, json_t *list,
                           struct err *err);
/* Keeps what a reply says of nodes that did not answer, for remote_tell_incomplete(). */
void remote_note_incomplete(struct remote *r, const json_t *reply);
/* Says on stderr what the last list may lack: nodes of a cluster that did not answer. */
void remote_tell_incomplete(const struct remote *r);

/* What a call has beside method and path. */
struct remote_request {
	const char *accept;              /* NULL = application/json */
	const struct http_field *fields; /* headers beside those that every call has */
	size_t n_fields;                 /* up to REMOTE_FIELDS_MAX */
	int *ret_status;                 /* if set: any status is a success, and told here */
	const json_t *body;
	http_source_fn source; /* raw bytes instead of JSON */
	void *source_arg;
	int64_t source_len; /* -1 = not known */
};
/* Sends, and reads the head: what is left is the body of a success. */
must_check int remote_begin(struct remote *r, const char *method, const char *path,
                            const struct remote_request *request, struct err *err);
/* The same to the end of a JSON answer (ret NULL = not wanted). */
must_check int remote_exchange(struct remote *r, const char *method, const char *path,
                               const struct remote_request *request, json_t **ret, struct err *err);
/* Upgrades the connection for http_client_ws_*(). */
must_check int remote_begin_ws(struct remote *r, const char *path, struct err *err);

enum err_code remote_error_code(const char *name); /* as error bodies have it; NULL is fine */
/* The text of a key: NUL-terminated, without what surrounds it in a file. */
must_check int remote_read_key(const char *path, char **ret, struct err *err);
