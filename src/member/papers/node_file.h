// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a node keeps about its cluster, all of it for root alone:
 *
 *	DATA/cluster/node.json		who it is there, its secret, its login at the database
 *	DATA/cluster/node.key, node.crt	what it shows to other nodes
 *	DATA/cluster/authority.crt	the cluster's, which those are held against
 *	DATA/cluster/authority.key	on the node that made the cluster: it signs the others'
 *	DATA/cluster/objects.keys	to seal with, and to wrap projects' keys (node_keys.h)
 *	DATA/cluster/root/		the member's root directory, its user's
 *	DATA/cluster/root/invitations/	what this node's own invitations are checked by
 *	DATA/cluster/root/certificate/	the certificate that has followed node.crt, with its key
 *	DATA/cluster/root/renewals/	on the node that signs: the newest key of each node
 */
#include "base/err.h"
#include "cluster/tag.h"

#include <sys/types.h>

#define NODE_NAME_MAX 63

struct node_file {
	char *cluster_id, *name, *address, *secret, *user, *password;
	char *invitation; /* that it joins with; NULL: it has its certificate */
	uint32_t node;    /* 0: it has not got one yet */
	uint32_t tags[TAGS_PER_NODE];
};

char *node_file_path(const char *data_dir, const char *name); /* in DATA/cluster */
/* -ENOENT: the node is in no cluster. */
must_check int node_file_read(struct node_file *f, const char *data_dir, struct err *err);
must_check int node_file_write(const struct node_file *f, const char *data_dir, struct err *err);
void node_file_done(struct node_file *f);
void node_file_draw_tags(struct node_file *f);

/* Makes the directories. */
must_check int node_file_prepare(const char *data_dir, struct err *err);
/* Who the member runs as: the user cloche-cluster, or a number that is kept for it. */
void node_file_user(uid_t *ret_uid, gid_t *ret_gid);
/* A file in DATA/cluster. */
must_check int node_file_save(const char *data_dir, const char *name, const char *text,
                              struct err *err);
/* NULL if it is not there; the caller frees it. */
char *node_file_load(const char *data_dir, const char *name);
/* Moves all but the directory root away, to DATA/cluster/old. */
must_check int node_file_set_aside(const char *data_dir, struct err *err);
