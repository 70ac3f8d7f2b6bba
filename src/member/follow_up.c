// SPDX-License-Identifier: Apache-2.0
/*
 * What a beat's answer says that there is to do: read the directory of the nodes again, sign the
 * certificates of nodes that this one has invited, renew those of this and of other nodes. Each is
 * a call on the connection for work, so a beat never waits for one. At most one of a kind is under
 * way; the answer to the next beat begins what was not done.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "member/database/answer_rows.h"
#include "member/member_private.h"
#include "member/papers/signing.h"

#include <inttypes.h>
#include <string.h>

#define DIRECTORY_US (5 * SECOND_US)

static void on_directory(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	auto_json json_t *all = answer->rows ? rows_json(answer->rows, "directory") : NULL;
	const uint64_t number = m->directory.number;
	int r;

	m->directory_asked = 0;
	m->directory_us = clock_steady_us();
	m->has_taken_over = false;
	if (!all) {
		member_on_work_done(answer, arg);
		return;
	}
	r = directory_set(&m->directory, all);
	if (r < 0) {
		log_warn("cluster.directory_refused", "error='%s'", strerror(-r));
		return;
	}
	log_write(m->directory.number == number ? LOG_DEBUG : LOG_INFO, "cluster.directory",
	          "nodes=%zu number=%" PRIu64, m->directory.n, m->directory.number);
	heard_nodes_set(m, all);
	if (m->peers)
		peers_look(m->peers);
	if (m->link)
		gateway_link_nodes(m->link, m->directory.nodes, m->directory.n);
}

static void on_certified(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;

	m->is_signing = false;
	member_on_work_done(answer, arg);
}

static void certify(struct member *m, const json_t *request)
{
	const char *invitation = json_string_value(json_object_get(request, "invitation"));
	auto_free char *certificate = NULL;
	struct err err = {0};
	int r = signing_answer(m->config.authority, m->config.node->cluster_id, &m->config.dirs,
	                       request, &certificate, &err);
	const char *const more[] = {invitation, certificate, r < 0 ? err.message : NULL};

	log_write(r < 0 ? LOG_WARN : LOG_INFO, "cluster.request",
	          "invitation='%s' name='%s' signed=%d error='%s'", invitation ? invitation : "",
	          signing_name(request), r == 0, r < 0 ? err.message : "");
	if (invitation && member_call(m, m->work, "SELECT cluster.certify($1::int, $2, $3, $4, $5)",
	                              more, ARRAY_SIZE(more), on_certified) < 0)
		log_warn("cluster.request_waits", "invitation='%s'", invitation);
}

static void on_requests(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	auto_json json_t *requests = answer->rows ? rows_json(answer->rows, "requests") : NULL;
	const json_t *one;
	size_t i;

	m->is_signing = false;
	if (!answer->rows)
		member_on_work_done(answer, arg);
	json_array_foreach(requests, i, one)
	{
		m->is_signing = true;
		certify(m, one);
	}
}

/* Nodes that go silent or join anew do not change the directory's number: it is read again while
 * there is one that is not alive, and after one was taken over. And people may look at it. */
static bool is_stale(const struct member *m)
{
	bool is_any_silent = m->has_taken_over;

	if (heard_nodes_are_due(m))
		return true;
	for (size_t i = 0; i < m->directory.n; i++)
		is_any_silent |= !m->directory.nodes[i].is_alive;
	return is_any_silent && clock_steady_us() >= m->directory_us + DIRECTORY_US;
}

void follow_up(struct member *m, const PGresult *rows)
{
	uint64_t directory = (uint64_t)MAX(rows_number(rows, "directory_number"), 0);

	if ((directory != m->directory.number || is_stale(m)) && directory != m->directory_asked &&
	    member_call(m, m->work, "SELECT cluster.directory($1::int, $2)", NULL, 0,
	                on_directory) == 0)
		m->directory_asked = directory;
	if (m->config.authority->key && !m->is_signing && rows_number(rows, "n_requests") > 0 &&
	    member_call(m, m->work, "SELECT cluster.requests($1::int, $2)", NULL, 0, on_requests) ==
	            0)
		m->is_signing = true;
	renewals_look(m);
	own_certificate_look(m);
}
