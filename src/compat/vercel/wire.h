// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Shared by the handlers of Vercel's API: objects in the form of its clients (an absent field is
 * left out, never null; times are milliseconds since 1970), look-ups, and errors.
 */
#include "compat/vercel/vercel_sandbox.h"

struct exec;

/* describe.c */
void put_vercel_sandbox(struct json_writer *w, const char *name, const struct vercel_sandbox *box);
void put_session(struct json_writer *w, const char *name, const struct vercel_session *s);
void put_routes(struct json_writer *w, const char *name, const struct vercel_sandbox *box);
void put_vercel_snapshot(struct json_writer *w, const char *name,
                         const struct vercel_snapshot *snapshot);
/* is_first: for the first record of a stream: as it was when it began, whatever its state is
 * now. */
void put_command(struct json_writer *w, const char *name, const struct exec *e,
                 const char *session_id, bool is_first);

/* find.c: each returns 1 if it has already sent an error with a code of its own. */
struct vercel *vercel_of(const struct http_req *req);
struct vercel_sandbox *vercel_sandbox_find(struct vercel *v, const char *project_id,
                                           const char *space, const char *name);
must_check int find_vercel_sandbox(struct http_req *req, struct vercel_sandbox **ret,
                                   struct err *err);
must_check int find_session(struct http_req *req, struct vercel_session **ret, struct err *err);
/* The same, and it runs. */
must_check int find_running(struct http_req *req, struct vercel_session **ret,
                            struct sandbox **ret_native, struct err *err);
must_check int find_command(struct http_req *req, struct vercel_session **ret_session,
                            struct exec **ret, struct err *err);
const char *space_of(const struct http_req *req); /* Vercel's project, or "" */
/* Our template for an image: "vcr.vercel.com/team/project/app:v1" is app-v1, and "app" alone is its
 * latest; NULL: none. */
const struct template *find_image(const struct fleet *fleet, const char *project_id,
                                  const char *image);
bool is_theirs(const char *image); /* one of Vercel's own: a runtime */
/* An image that is not one of theirs. 1: it is being pulled, as await_image() has it. */
must_check int find_or_pull(struct http_req *req, const char *image, struct err *err);
/* What a sandbox of that image or runtime (NULL: not said) starts from; *ret is NULL for the host's
 * own files. Refused, with what to do: there is none that has what they name. */
must_check int find_base(const struct api *api, const char *project_id, const char *image,
                         const char *runtime, const struct template **ret, struct err *err);

/* error.c */
void vercel_refuse(struct http_req *req, int status, const char *code, const char *message);
void vercel_fail(struct http_req *req, const struct err *err);

/* body.c */
/* As json_read(), but unknown fields are ignored: Vercel's clients send more than these. */
must_check int body_read(const json_t *object, const char *prefix, const struct json_field *fields,
                         size_t n, struct err *err);
enum body_kind { BODY_CREATE, BODY_FORK, BODY_UPDATE };
struct vercel_sandbox_body {
	const char *name, *space, *snapshot_id; /* borrowed, or NULL */
	json_t *source;                         /* as ours, owned; or NULL */
	bool is_interactive;
	bool has_ports, has_snapshot;
};
void vercel_sandbox_body_done(struct vercel_sandbox_body *body);
/* Reads settings into *config, which keeps its values for those that are not given. */
must_check int body_read_vercel_sandbox(const json_t *body, enum body_kind kind,
                                        struct vercel_sandbox_config *config,
                                        struct vercel_sandbox_body *ret, struct err *err);
void vercel_sandbox_config_default(struct vercel_sandbox_config *c);
void vercel_sandbox_config_copy(struct vercel_sandbox_config *to,
                                const struct vercel_sandbox_config *from);

/* page.c: lists, page by page. */
#define PAGE_ID_SIZE 132 /* of any of Vercel's objects */
struct page_query {
	const char *cursor, *sort_by, *name, *name_prefix, *tag;
	bool is_ascending;
	uint64_t limit;
};
must_check int page_read(const struct http_req *req, uint64_t limit_default, uint64_t limit_max,
                         struct page_query *ret, struct err *err);
/* One item of a list: its sort key, its id as clients see it, and what it is. */
struct page_item {
	char id[PAGE_ID_SIZE];
	const void *object; /* of this node; NULL: row is another one's */
	const json_t *row;
	uint64_t at_ms;
	const char *text; /* instead of at_ms, or NULL; borrowed */
};
struct page_items {
	struct page_item *at;
	size_t n, size;
};
/* A list. In a cluster each node has a part of it (src/api/nodes/node_rows.h). */
struct page_kind {
	const char *array, *id_field;
	const char *
		sorts[3]; /* fields of numbers or texts that `sortBy` may name; the first without */
	uint64_t limit_default, limit_max;
	void (*collect)(struct http_req *req, const struct page_query *q, struct page_items *ret);
	void (*put)(struct json_writer *w, const void *object);
};
void page_add(struct page_items *items, const char *id, const void *object, uint64_t at_ms,
              const char *text);
/* Which of the kind's sorts is asked for. */
bool page_sorts_by(const struct page_query *q, const char *field);
must_check int page_list(struct http_req *req, const struct page_kind *kind, struct err *err);
