// SPDX-License-Identifier: Apache-2.0
/*
 * Whether the database has lost something that it had acknowledged: by a failover to a standby that
 * was behind, or as a backup was restored. Each write of this node is counted there (the function
 * wrote), and its number comes with the answer. A number that is not above the last one, and a
 * count that is below it, tell that some were lost.
 *
 * Only another start or timeline of PostgreSQL can have lost anything. With each of them the
 * gateway compares all that it has with the database, whatever the count says: what is lost may be
 * another node's, which is dead.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "member/database/answer_rows.h"
#include "member/member_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TOLD_S 10

void rewind_on_write(void *arg)
{
	struct member *m = arg;
	const uint64_t now_s = clock_wall_us() / SECOND_US;

	if (now_s < m->rewound_s + TOLD_S) /* one that counts at random costs little */
		return;
	m->n_rewinds++;
	m->n_compares++;
	m->rewound_s = now_s;
	log_warn("cluster.database_rewound",
	         "node=%s message='the database counts fewer writes of this node than it has "
	         "acknowledged: it was set back'",
	         m->node_text);
	member_tell_gateway(m);
}

static void on_written(const struct database_answer *answer, void *arg)
{
	struct member *m = arg;
	const int64_t written = answer->rows ? rows_number(answer->rows, "written") : -1;

	m->is_counting = false;
	if (written < 0)
		return; /* with the next beat */
	m->is_count_due = false;
	if ((uint64_t)written < m->calls.written)
		rewind_on_write(m);
	m->calls.written = (uint64_t)written;
}

void rewind_look(struct member *m, const char *server)
{
	if (m->server[0] && strcmp(m->server, server) != 0) {
		log_warn("cluster.another_server", "server='%s' before='%s'", server, m->server);
		m->n_compares++;
		m->is_count_due = true;
		member_tell_gateway(m);
	}
	(void)snprintf(m->server, sizeof(m->server), "%s", server);
	if (m->is_count_due && !m->is_counting &&
	    member_call(m, m->work, "SELECT cluster.written($1::int, $2) AS written", NULL, 0,
	                on_written) == 0)
		m->is_counting = true;
}
