// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A page of a list of which each node of the cluster has a part.
 *
 *	node_list_begin() --> the other nodes, at once --> directory, of those that did not answer
 *	                                                     --> finish(): own rows, merge, reply
 *
 * Each part is the first page of its node after the same cursor, so the first rows of all of them
 * together are the page. If a part has more rows, nobody knows what follows its last row: the page
 * ends there, too.
 *
 * The reply says which rows are old or missing: in `incomplete` of native lists, and in the field
 * Cloche-Incomplete of all (node_rows.h).
 */
#include "api/api.h"
#include "api/frame/late_reply.h"

struct node_list;

/* Behind which row the page begins: us 0 = it is the first one. */
struct node_list_place {
	uint64_t us;
	char id[ID_SIZE];
	uint64_t limit;
};

struct node_list_kind {
	const char *array;   /* of the answer that has the rows; NULL: it is the answer */
	const char *id_kind; /* of the rows' ids: "sb"; bare ids are taken for such ones */
	const char *id_field, *time_field;
	bool is_time_text; /* as in RFC 3339; else microseconds */
	bool is_ascending;
	bool tells_node; /* rows have the field `node` */
	/* What to ask the directory for; NULL: it does not know such rows. */
	int (*read)(struct http_req *req, struct node_list_place *place, json_t *filter,
	            struct err *err);
	int (*finish)(struct http_req *req, struct node_list *l, struct err *err);
};

struct node_row {
	uint64_t us;
	char id[ID_SIZE];
	json_t *row;      /* of another node, or NULL */
	const void *own;  /* of this one */
	const char *node; /* its name */
};

struct node_list { /* for finish() */
	struct late_reply late;
	const struct node_list_kind *kind;
	const struct api *api;
	char project_id[ID_SIZE];
	char self[PEER_NAME_SIZE], unsure[PEER_WHY_SIZE];
	struct node_list_part {
		char name[PEER_NAME_SIZE], why[PEER_WHY_SIZE];
		uint32_t node;
		uint64_t as_of_us; /* of what the directory knows of it; 0: nothing */
		json_t *body;
		bool has_more;
		uint64_t total; /* of its X-Total-Running */
	} * parts;
	size_t n_parts;
	json_t *told; /* what the directory has said, or NULL */
	struct node_row *rows;
	size_t n_rows, size;
	bool has_more;
	/* Behind this row not all are known. */
	bool has_floor;
	uint64_t floor_us;
	char floor_id[ID_SIZE];
};

/* 1: finish() comes later; 0: this node's part is all there is; < 0: err is the answer. */
must_check int node_list_begin(struct http_req *req, const struct node_list_kind *kind,
                               struct err *err);
/* In finish(): all that this node has of the page. */
void node_list_add_own(struct node_list *l, uint64_t us, const char *id, const void *own);
void node_list_own_has_more(struct node_list *l);
/* Then: puts all parts in order and cuts the page. */
void node_list_merge(struct node_list *l, size_t limit);
/* A field of a native reply. */
void node_list_put_incomplete(const struct node_list *l, struct json_writer *w);

/* Which node has made what the reply is about: Cloche-Node. */
void node_tell_name(struct http_req *req);
