// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The database's rows of snapshots that are in the store of objects. There may be very many, so no
 * node keeps a copy: a node asks for the row that it needs.
 *
 * The seal of a snapshot's files covers their class: its project, its sandbox and its id. So
 * whatever the database says, a broker accepts only files that were sealed as this snapshot.
 */
#include "node/shared_images.h"

struct node_snapshot {
	char id[ID_SIZE], project_id[ID_SIZE], source_id[ID_SIZE];
	uint64_t generation, expires_us, bytes;
	struct digest digest, seal; /* of its files */
	uint32_t node;              /* that made it; of what was asked for */
	/* Of its template: parts, and in project_id whose they are; 0 parts: the host itself. */
	struct node_image image;
};

void node_snapshot_class(const struct node_snapshot *s, struct digest *ret);
/* The answer has "result". */
void node_publish_snapshot(struct node *n, const struct node_snapshot *s, node_answer_fn fn,
                           void *arg);
void node_remove_snapshot(struct node *n, const char *project_id, const char *id, node_answer_fn fn,
                          void *arg);
/* ids: an array, borrowed. The answer has "gone" and "missing". */
void node_seen_snapshots(struct node *n, json_t *ids, node_answer_fn fn, void *arg);
void node_find_snapshot(struct node *n, const char *id, node_answer_fn fn, void *arg);
/* The answer to that, read as a stranger's text. ERR_NOT_FOUND, also for one of another project. */
must_check int node_read_snapshot(const json_t *answer, const char *project_id, const char *id,
                                  struct node_snapshot *ret, struct err *err);
/* A file to the store of objects, or from there: fd stays the caller's. */
void node_put_snapshot(struct node *n, const struct node_snapshot *s, int fd, node_answer_fn fn,
                       void *arg);
void node_get_snapshot(struct node *n, const struct node_snapshot *s, int fd, node_answer_fn fn,
                       void *arg);
