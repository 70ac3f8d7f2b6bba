// SPDX-License-Identifier: Apache-2.0
/*
 * contract SEED STEPS: random calls, each as SQL for src/cluster/schema.sql and, behind a tab, what
 * the model answers; then what must be in the tables. What differs is an error of one of the two:
 * tests/functional/test_cluster_schema.py looks.
 */
#include "model.h"

#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>

#define NODES    4
#define PROJECTS 3
#define NAMES    3
#define LIMIT    40

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (random_state >> 33) % below;
}

/* Mostly the right one. */
static uint64_t near(uint64_t right)
{
	uint64_t kind = draw(10);

	return kind == 0 ? right + 1 : kind == 1 && right > 0 ? right - 1 : right;
}

static const char *truth(bool is)
{
	return is ? "t" : "f";
}

static void call(const char *function, uint32_t node, uint64_t epoch)
{
	printf("SELECT cluster.%s(%u, repeat('%u', 32), %" PRIu64, function, node, node, epoch);
}

static void step(struct model *db, uint64_t *number)
{
	uint32_t node = 1 + (uint32_t)draw(NODES), of = 1 + (uint32_t)draw(NODES);
	uint32_t project = (uint32_t)draw(PROJECTS), name = 1 + (uint32_t)draw(NAMES),
		 sandbox = 1 + (uint32_t)draw(5);
	uint64_t epoch = near(db->nodes[node].epoch), of_epoch = near(db->nodes[of].epoch);
	uint64_t of_number = near(db->nodes[of].number),
		 n = ++*number - (draw(6) == 0 ? draw(20) : 0);
	bool is_fresh = draw(2), is_server = draw(10) > 0;
	struct lease_call lease = {.number = n, .least = draw(30)};
	uint64_t total = 0, kind = draw(20);
	int r;

	lease.total = lease.least + draw(2) * draw(10);
	if (kind < 2) {
		call("join_node", node, epoch);
		printf(", %" PRIu64 ", '%s')\t%" PRIu64 "\n", n, truth(is_fresh),
		       model_join(db, node, epoch, n, 0, is_fresh));
	} else if (kind < 6) {
		printf("SELECT is_taken FROM cluster.beat(%u, repeat('%u', 32), %" PRIu64
		       ", %" PRIu64 ", '{}')\t%s\n",
		       node, node, epoch, n, truth(model_beat(db, node, epoch, n, 0)));
	} else if (kind < 11) {
		r = model_lease(db, node, epoch, project, &lease, &total);
		call("lease", node, epoch);
		printf(", 'p%u', 'memory', %" PRIu64 ", %" PRIu64 ", %" PRIu64 ")\t", project, n,
		       lease.total, lease.least);
		if (r == 0)
			printf("%" PRIu64, total);
		printf("\n");
	} else if (kind < 15) {
		r = model_name(db, node, epoch, n, name, sandbox);
		printf("SELECT result FROM cluster.take_name(%u, repeat('%u', 32), %" PRIu64
		       ", %" PRIu64 ", 'p', 'n%u', 'sb_%u')\t%s\n",
		       node, node, epoch, n, name, sandbox,
		       r == 0         ? "ok"
		       : r == -EEXIST ? "taken"
		                      : "stale");
	} else if (kind < 17) {
		call("free_name", node, epoch);
		printf(", %" PRIu64 ", 'p', 'n%u', 'sb_%u')\t%s\n", n, name, sandbox,
		       truth(model_name_free(db, node, epoch, n, name, sandbox)));
	} else {
		bool may =
			node != of && db->nodes[node].has_joined && epoch == db->nodes[node].epoch;
		uint64_t server = db->server + !is_server;
		bool done = may && (kind < 19 ? model_claim(db, of, of_epoch, of_number, server)
		                              : model_lose(db, of, of_epoch, of_number, server));

		call(kind < 19 ? "claim" : "lose", node, epoch);
		printf(", %u, %" PRIu64 ", %" PRIu64 ", %s)\t%s\n", of, of_epoch, of_number,
		       is_server ? "cluster.server()" : "'another'", truth(done));
	}
}

static void show_tables(struct model *db)
{
	for (uint32_t p = 0; p < PROJECTS; p++)
		printf("SELECT leased, is_wanted FROM cluster.quotas WHERE project_id = "
		       "'p%u'\t%" PRIu64 "|%s\n",
		       p, db->projects[p].leased, truth(db->projects[p].is_wanted));
	for (uint32_t n = 1; n <= NODES; n++) {
		printf("SELECT epoch, number, is_claimed, is_lost FROM cluster.beats JOIN "
		       "cluster.nodes USING (node) WHERE node = %u\t%" PRIu64 "|%" PRIu64
		       "|%s|%s\n",
		       n, db->nodes[n].epoch, db->nodes[n].number, truth(db->nodes[n].is_claimed),
		       truth(db->nodes[n].is_lost));
		for (uint32_t p = 0; p < PROJECTS; p++)
			printf("SELECT coalesce(sum(amount), 0) FROM cluster.leases WHERE node = "
			       "%u AND project_id = 'p%u'\t%" PRIu64 "\n",
			       n, p, model_lease_of(db, n, p)->amount);
	}
	for (uint32_t i = 1; i <= NAMES; i++) {
		printf("SELECT coalesce(max(sandbox_id || ' ' || node), '') FROM cluster.names "
		       "WHERE name = 'n%u'\t",
		       i);
		if (db->names[i].sandbox)
			printf("sb_%u %u", db->names[i].sandbox, db->names[i].node);
		printf("\n");
	}
}

int main(int argc, char **argv)
{
	uint64_t steps, number = 20;
	struct model db;

	if (argc != 3 || parse_u64(argv[1], UINT64_MAX, &random_state) < 0 ||
	    parse_u64(argv[2], 1000000, &steps) < 0) {
		fprintf(stderr, "usage: contract SEED STEPS\n");
		return 2;
	}
	model_init(&db, NODES, PROJECTS, NAMES);
	for (uint32_t n = 1; n <= NODES; n++)
		printf("SELECT cluster.add_node('node%u:7071', repeat('%u', 32), ARRAY[%u])\t%u\n",
		       n, n, n, n);
	for (uint32_t p = 0; p < PROJECTS; p++) {
		db.projects[p].limit = LIMIT;
		printf("INSERT INTO cluster.quotas VALUES ('p%u', 'memory', %d) RETURNING 1\t1\n",
		       p, LIMIT);
	}
	while (steps-- > 0)
		step(&db, &number);
	show_tables(&db);
	model_done(&db);
	return 0;
}
