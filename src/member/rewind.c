// SPDX-License-Identifier: Apache-2.0
/*
 * Finds out whether the database has lost writes that it had acknowledged: by a failover to a
 * standby that was behind, or because a backup was restored. The database counts each write of this
 * node (the function wrote), and the number comes with the answer. If it is not above the last
 * number, or the database's count is below that, writes were lost.
 *
 * Only another start or timeline of PostgreSQL can have lost anything. After each of them the
 * gateway compares all that it has with the database, whatever the count says: the lost writes may
 * be those of another node, which is dead.
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
