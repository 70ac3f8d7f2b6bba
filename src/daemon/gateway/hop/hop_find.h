// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Finds the node that has a snapshot, a volume or a group of some name. A node knows only its own
 * names. So all nodes are asked at the same time whether they have it. The question is a hop of the
 * client's own request without its body, and is answered before the handler sees it. It changes
 * nothing, and needs no database.
 */
#include "daemon/gateway/hop/hop.h"

#define HOP_FIND_MAX  16 /* names of one request */
#define HOP_FIND_NAME 65 /* the longest, and its NUL */

enum hop_kind {
	HOP_SNAPSHOT,
	HOP_VOLUME,
	HOP_GROUP,
	HOP_SOURCE,      /* a sandbox or a snapshot */
	HOP_SECRET_USER, /* sandboxes whose policies refer to a secret (hop_secret.c) */
	HOP_KIND_COUNT
};

struct hop_find {
	struct {
		enum hop_kind kind;
		char name[HOP_FIND_NAME];
		uint32_t node; /* the answer; 0: nobody has it */
	} at[HOP_FIND_MAX];
	size_t n;
};

const char *hop_kind_name(enum hop_kind kind);
bool hop_has(const struct hops *h, const struct http_req *req, enum hop_kind kind,
             const char *name);
/* A name that nothing can have is not asked for. */
void hop_find_add(struct hop_find *f, enum hop_kind kind, const char *name);
/* err NULL: each has its node. Else one is on two nodes, or may be on one that does not answer. */
typedef void (*hop_found_fn)(const struct hop_find *f, const struct err *err, void *arg);
/* 1: fn is called once, later, also if the client has left by then; 0: there is nobody to ask. */
must_check int hop_find_begin(struct hops *h, struct http_req *req, const struct hop_find *f,
                              hop_found_fn fn, void *arg, struct err *err);
/* Of a request that another node asks so: answers it. */
bool hop_find_answer(struct hops *h, struct http_req *req);
/* Part of locate: of paths that call one of these by its name. */
must_check int hop_find_path(struct hops *h, struct http_req *req, struct err *err);
