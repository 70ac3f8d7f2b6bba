// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the two ends of an invitation check: a member that signs, that a request is of who was
 * invited; and everybody, that a database is the cluster's and speaks as this program does.
 */
#include "base/json/json.h"
#include "member/papers/authority.h"
#include "member/papers/trouble.h"

#include <libpq-fe.h>

/* The certificate for a row of the function requests; else err says why it is refused. */
struct signing_dirs { /* what the node that signs keeps */
	const char *invitations, *renewals;
};
must_check int signing_answer(const struct authority_pems *authority, const char *cluster_id,
                              const struct signing_dirs *dirs, const json_t *request,
                              char **ret_certificate, struct err *err);
const char *signing_name(const json_t *request); /* of the node; "" if it has none */
/* Of the answer to hello. cluster_id NULL: any will do. */
enum trouble signing_check_hello(const PGresult *rows, const char *cluster_id, int64_t own_number,
                                 struct err *err);
