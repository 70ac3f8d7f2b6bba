// SPDX-License-Identifier: Apache-2.0
/*
 * On the node that has the authority's key: renews the certificates of nodes that ask for it, its
 * own among them (papers/renewal.h). One round is under way at a time. If this node fails, the
 * request gets no answer, and the next round looks at it again.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "member/database/answer_rows.h"
#include "member/member_private.h"
#include "member/papers/renewal.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

#define LOOK_US (1 * SECOND_US)

static void digest_of(const char *text, char ret[DIGEST_HEX])
{
	struct digest d;
	unsigned len = DIGEST_LEN;

	if (EVP_Digest(text, strlen(text), d.bytes, &len, EVP_sha256(), NULL) != 1)
		abort(); /* no memory */
	digest_to_hex(&d, ret);
}

static void answer_one(struct member *m, const json_t *row)
{
	const char *name = json_string_value(json_object_get(row, "name"));
	const char *text = json_string_value(json_object_get(row, "request"));
	auto_free char *certificate = NULL, *refusal = NULL;
	char node[24], digest[DIGEST_HEX];
	struct err err = {0};
	const char *more[4] = {node, digest};
	int r;

	if (!name || !text)
		return;
	r = renewal_sign(m->config.authority, m->config.node->cluster_id, m->config.dirs.renewals,
	                 name, text, &certificate, &err);
	log_write(r < 0 ? LOG_WARN : LOG_INFO, "cluster.renewal",
	          "name='%.64s' signed=%d error='%s'", name, r == 0, r < 0 ? err.message : "");
	if (r < 0 && err.code == ERR_INTERNAL)
		return;
	if (r < 0)
		refusal = xasprintf("%s %s", err.field, err.message);
	(void)snprintf(node, sizeof(node), "%" PRId64,
	               (int64_t)json_integer_value(json_object_get(row, "node")));
	digest_of(text, digest);
	more[2] = certificate;
	more[3] = refusal;
	if (member_call(m, m->work,
	                "SELECT cluster.answer_renewal($1::int, $2, $3::int, $4, $5, $6)", more,
	                ARRAY_SIZE(more), member_on_work_done) < 0)
		log_debug("cluster.renewal_waits", "name='%.64s'", name);
}

static void on_open(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	auto_json json_t *all = answer->rows ? rows_json(answer->rows, "open") : NULL;
	const json_t *one;
	size_t i;

	m->is_renewing = false;
	if (!answer->rows)
		member_on_work_done(answer, arg);
	json_array_foreach(json_object_get(all, "renewals"), i, one)
	{
		answer_one(m, one);
	}
}

void renewals_look(struct member *m)
{
	uint64_t now_us = clock_steady_us();

	if (!m->config.authority->key || m->is_renewing || now_us < m->renewals_us)
		return;
	m->renewals_us = now_us + LOOK_US;
	m->is_renewing =
		member_call(m, m->work, "SELECT cluster.renewals_open($1::int, $2) AS open", NULL,
	                    0, on_open) == 0;
}
