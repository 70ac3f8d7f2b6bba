// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a path names, among what the caller's project owns. Anything else is NOT_FOUND in the same
 * words, so that nobody learns what others have.
 */
#include "api/api.h"
#include "sandbox/exec/exec.h"

const char *caller_project(const struct http_req *req); /* borrowed: lives as long as the daemon */
/* Is the caller of the project "default", whose admins rule over all? */
must_check int check_is_default(const struct http_req *req, struct err *err);
bool is_host_admin(const struct api *api, const struct key *key); /* an admin of that one */
/* The project that is meant: the caller's own (name NULL), or another, by id or name. */
must_check int find_project(const struct http_req *req, const char *name, const char **ret,
                            struct err *err);
/* First in a handler whose body or query names a snapshot, a volume or another sandbox: in a
 * cluster that may be on another node. 1: it waits for the answer, or that node answers; 0: it is
 * for this one. */
must_check int lead_elsewhere(struct http_req *req, struct err *err);
must_check int find_sandbox(const struct http_req *req, struct sandbox **ret, struct err *err);
struct build;
must_check int find_build(const struct http_req *req, struct build **ret, struct err *err);
struct snapshot;
must_check int find_snapshot(const struct http_req *req, struct snapshot **ret, struct err *err);
must_check int find_exec(const struct http_req *req, struct exec **ret, struct err *err);
/* Refuses a client that accepts none of the types (NULL-terminated) that the route can give. */
must_check int check_accept(const struct http_req *req, const char *const *types, struct err *err);
extern const char *const result_types[]; /* JSON, or an event stream */
extern const char *const event_types[];
