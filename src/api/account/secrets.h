// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What every wire does with secrets of the caller's project. */
#include "secret/secret_shared.h"

struct http_req;

/* It is done: replies. is_new: there was none before. */
typedef int (*secret_done_fn)(struct http_req *req, const char *name, bool is_new, struct err *err);
/* Sets one, in a cluster for all nodes. done is called now or later. */
must_check int secret_put(struct http_req *req, const struct secret_wish *wish, secret_done_fn done,
                          struct err *err);
must_check int secret_drop(struct http_req *req, const char *name, secret_done_fn done,
                           struct err *err);
/* 0: it is in *ret. 1: the call waits for what other nodes have; its handler is called again. */
must_check int secret_find_fresh(struct http_req *req, const char *name, const struct secret **ret,
                                 struct err *err);
/* The same, but not if a webhook or the policy of a sandbox refers to it. In a cluster all nodes
 * are asked, and it is kept if one does not answer. */
must_check int secret_drop_unused(struct http_req *req, const char *name, secret_done_fn done,
                                  struct err *err);
