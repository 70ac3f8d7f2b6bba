// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the files of batches share: batch.c creates one, batch_spec.c reads what is asked for,
 * batch_removal.c ends one. */
#include "api/api.h"
#include "sandbox/model/sandbox.h"

#define BATCH_MAX 1000 /* members */

/* What *ret_spec borrows lives in the body. */
must_check int batch_read(const json_t *body, struct sandbox_spec *ret_spec, uint64_t *ret_count,
                          struct err *err);
/* batch_key.c: in a cluster, takes the key of a batch. 1: the handler is called again when it is
 * taken; if another node has the batch already, that node answers. */
struct idempotency_key;
must_check int batch_take_key(struct http_req *req, const struct idempotency_key *key,
                              struct err *err);
bool batch_key_is_taken(const struct http_req *req); /* by this request */
/* If it is still being created: cuts its stream off, and no more members are begun. */
bool batch_stop(const struct api *api, const char *project_id, const char *id);
