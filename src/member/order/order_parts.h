// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What several orders do. */
#include "member/database/session.h"
#include "member/order/order.h"
#include "member/papers/invitation.h"
#include "member/papers/node_file.h"

/* The setting cluster.postgres, else an error that says to set it. */
must_check int order_need_postgres(const struct order *o, struct err *err);
/* Whether this node may join or make a cluster: it is in none, or is to leave it. */
must_check int order_need_alone(const struct order *o, struct err *err);
/* A session with the login of a member, and the answer to hello, which is held against cluster_id
 * (NULL: any). */
must_check int order_open_as(const struct order *o, const char *user, const char *password,
                             const char *cluster_id, struct session *s, PGresult **ret_hello,
                             struct err *err);
/* The same for this node, whose file is read. */
must_check int order_open(const struct order *o, struct node_file *f, struct session *s,
                          struct err *err);
/* The tags as an array of SQL; the caller frees it. */
char *order_tags(const struct node_file *f);
/* Who may make schemas, as --owner says. */
must_check int order_open_owner(const struct order *o, struct session *s, struct err *err);
/* The member that runs begins anew. */
void order_tell_member(const struct order *o);
