// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Calls that meet what another node may have changed a moment ago (node/sealed_records.h): they
 * wait until this node knows all that was changed before they came. Their handler is then called
 * again, so it must have done nothing yet.
 */
#include "http/server.h"

/* 0: this node knows all, or is alone. 1: the call waits. < 0: nobody can be asked; err says so. */
must_check int node_fresh_look(struct http_req *req, struct err *err);
/* Another node was faster: whether the call waits for what that one has changed. */
bool node_fresh_retry(struct http_req *req, const struct err *err);
/* A hook of struct http_app, for calls that name a secret which is not known here. */
int node_fresh_refused(struct http_req *req, const struct err *err);
