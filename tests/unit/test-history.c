// SPDX-License-Identifier: Apache-2.0
/* History over a store of its own, with clocks that the test moves. */
#include "base/log.h"
#include "base/units.h"
#include "history/history.h"
#include "history/history_private.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define HOUR_US  (3600 * SECOND_US)
#define START_US (20000 * DAY_US) /* in 2024, at midnight */
#define TEN      (10 * SECOND_US)

static char dir[64], db[96];
static struct loop *loop;
static struct store *store;
static struct history *history;
static uint64_t wall, steady;
static bool has_room;
static size_t n_sandboxes; /* that run: sb_0, sb_1, … */
static uint64_t cpu_ns, memory_bytes;
static bool is_second; /* they are of the project prj_b */

static uint64_t tell_wall(void)
{
	return wall;
}

static uint64_t tell_steady(void)
{
	return steady;
}

static void feed(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < n_sandboxes; i++) {
		char id[ID_SIZE];

		(void)snprintf(id, sizeof(id), "sb_%s%zu", is_second ? "b" : "", i);
		history_feed(history,
		             &(struct history_feed){.project_id = is_second ? "prj_b" : "prj_a",
		                                    .sandbox_id = id,
		                                    .cpu_ns = cpu_ns,
		                                    .memory_bytes = memory_bytes + i * MIB});
	}
}

static bool host(uint64_t elapsed_us, uint64_t of[HISTORY_FIGURES_MAX], void *arg)
{
	(void)elapsed_us;
	(void)arg;
	of[HOST_LOAD] = 500;
	of[HOST_DISK_FREE] = GIB;
	return true;
}

static bool tell_room(void *arg)
{
	(void)arg;
	return has_room;
}

static void open_with(uint64_t bytes_max, uint64_t runs_max)
{
	const struct history_config config = {.loop = loop,
	                                      .bytes_max = bytes_max,
	                                      .runs_max = runs_max,
	                                      .period_us = TEN,
	                                      .wall_us = tell_wall,
	                                      .steady_us = tell_steady};
	struct history_config with = config;

	CHECK_INT(store_open(db, &store, NULL), 0);
	with.store = store;
	CHECK_INT(history_open(&with, &history, NULL), 0);
	history_start(history,
	              &(struct history_sources){.feed = feed, .host = host, .has_room = tell_room});
	wall += 2 * TEN; /* until it is warm */
	steady += 2 * TEN;
}

static void shut(void)
{
	history_close(history);
	store_close(store);
}

static void begin(void)
{
	log_init("test", LOG_ERROR + 1);
	(void)snprintf(dir, sizeof(dir), "/tmp/test-history-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(db, sizeof(db), "%s/state.db", dir);
	CHECK_INT(loop_new(&loop, NULL), 0);
	wall = START_US;
	steady = 5 * HOUR_US;
	has_room = true;
	n_sandboxes = 0;
	cpu_ns = 0;
	memory_bytes = 64 * MIB;
	is_second = false;
	open_with(64 * MIB, 1000);
}

static void end(void)
{
	static const char *const suffixes[] = {"", "-wal"};

	shut();
	loop_free(loop);
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		char path[128];

		(void)snprintf(path, sizeof(path), "%s%s", db, suffixes[i]);
		(void)unlink(path);
	}
	CHECK_INT(rmdir(dir), 0);
}

static void pass(uint64_t us)
{
	wall += us;
	steady += us;
}

/* Takes a reading each step, and writes as the job would. */
static void take(size_t n, uint64_t step_us)
{
	for (size_t i = 0; i < n; i++) {
		pass(step_us);
		cpu_ns += step_us * 250; /* a quarter of a CPU */
		history_take_reading(history);
		CHECK_INT(history_write(history, NULL), 0);
	}
}

struct seen {
	size_t known;
	uint64_t first, last; /* of the known */
	size_t first_at, last_at;
};

static struct seen look(const char *project_id, const char *sandbox_id, const char *range,
                        unsigned figure)
{
	struct seen seen = {0};
	struct history_view v;

	CHECK_INT(
		history_view(history, project_id, sandbox_id, history_find_range(range), &v, NULL),
		0);
	for (size_t i = 0; i < v.n; i++) {
		if (!v.is_known[i])
			continue;
		seen.last = v.values[i * v.n_figures + figure];
		seen.last_at = i;
		if (seen.known++ == 0) {
			seen.first = seen.last;
			seen.first_at = i;
		}
	}
	history_view_done(&v);
	return seen;
}

TEST(a_reading_is_seen_in_every_range_at_once)
{
	static const char *const names[] = {"1h", "24h", "7d", "30d"};

	begin();
	n_sandboxes = 2;
	take(1, TEN);
	take(1, TEN);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		CHECK_INT(look("prj_a", "sb_1", names[i], SANDBOX_MEMORY).last, 65 * MIB);
		CHECK_INT(look("prj_a", NULL, names[i], PROJECT_MEMORY).last, 129 * MIB);
		CHECK_INT(look(NULL, NULL, names[i], PROJECT_SANDBOXES).last, 2);
		CHECK_INT(look(NULL, NULL, names[i], HOST_LOAD).last, 500);
	}
	CHECK_INT(look("prj_a", "sb_0", "1h", SANDBOX_CPU).last, 250);
	CHECK_INT(look("prj_a", "sb_0", "1h", SANDBOX_CPU).known, 2);
	end();
}

TEST(steps_take_the_mean_the_most_and_the_sum)
{
	begin();
	n_sandboxes = 1;
	take(1, 60 * SECOND_US - wall % (60 * SECOND_US) + TEN); /* 10 s into a minute */
	for (unsigned i = 0; i < 4; i++) {
		memory_bytes = (i == 1 ? 900 : 100) * MIB;
		history_on_use(history, "prj_a", &(struct usage){.of = {[USAGE_EXECS] = 3}});
		take(1, TEN);
	}
	CHECK_INT(look("prj_a", "sb_0", "24h", SANDBOX_MEMORY).last, 900 * MIB);
	CHECK_INT(look("prj_a", NULL, "24h", PROJECT_EXECS).last, 12);
	CHECK_INT(look("prj_a", "sb_0", "24h", SANDBOX_CPU).last, 200); /* the first had no base */
	end();
}

TEST(a_project_that_does_nothing_has_zeros_and_a_sandbox_that_does_not_run_has_gaps)
{
	begin();
	n_sandboxes = 1;
	take(3, TEN);
	n_sandboxes = 0;
	take(3, TEN);
	CHECK_INT(look("prj_a", "sb_0", "1h", SANDBOX_MEMORY).known, 3);
	CHECK_INT(look("prj_a", NULL, "1h", PROJECT_SANDBOXES).known, 6);
	CHECK_INT(look("prj_a", NULL, "1h", PROJECT_SANDBOXES).last, 0);
	CHECK_INT(look("prj_c", NULL, "1h", PROJECT_SANDBOXES).known, 6);
	CHECK_INT(look("prj_b", "sb_0", "1h", SANDBOX_MEMORY).known, 0); /* another's */
	end();
}

TEST(hours_without_a_daemon_are_a_gap)
{
	begin();
	n_sandboxes = 1;
	take(12, TEN);
	shut();
	pass(5 * HOUR_US);
	cpu_ns += 5 * HOUR_US * 1000; /* nobody looked: no peak behind it */
	open_with(64 * MIB, 1000);
	take(2, TEN);
	CHECK_INT(look("prj_a", "sb_0", "1h", SANDBOX_CPU).known, 2);
	CHECK_INT(look("prj_a", "sb_0", "24h", SANDBOX_CPU).known, 5);
	CHECK_INT(look(NULL, NULL, "24h", HOST_LOAD).known, 5);
	CHECK(look("prj_a", "sb_0", "24h", SANDBOX_CPU).last <= 250);
	CHECK(look("prj_a", NULL, "24h", SANDBOX_CPU).last <= 250);
	end();
}

TEST(a_kill_loses_a_minute_at_most_of_every_step)
{
	struct seen seen;
	int status = -1;
	pid_t pid;

	begin();
	shut();
	pid = fork();
	if (pid == 0) {
		open_with(64 * MIB, 1000);
		n_sandboxes = 1;
		for (unsigned i = 0; i < 66; i++) {
			history_on_use(history, "prj_a",
			               &(struct usage){.of = {[USAGE_EXECS] = 1}});
			take(1, TEN);
		}
		_exit(0); /* nothing is closed */
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
	pass(67 * TEN);
	open_with(64 * MIB, 1000);
	n_sandboxes = 1;
	seen = look("prj_a", "sb_0", "1h", SANDBOX_MEMORY);
	CHECK(seen.known >= 60);
	CHECK(look("prj_a", "sb_0", "24h", SANDBOX_MEMORY).known >= 10);
	/* What goes on in the same ten minutes is added to what was there. */
	CHECK(look("prj_a", NULL, "30d", PROJECT_EXECS).known == 2);
	CHECK(look("prj_a", NULL, "30d", PROJECT_EXECS).first +
	              look("prj_a", NULL, "30d", PROJECT_EXECS).last >=
	      60);
	take(1, TEN);
	CHECK(look("prj_a", NULL, "30d", PROJECT_EXECS).first +
	              look("prj_a", NULL, "30d", PROJECT_EXECS).last >=
	      60);
	end();
}

TEST(a_clock_that_is_years_ahead_for_a_while_removes_nothing)
{
	uint64_t before;

	begin();
	n_sandboxes = 1;
	take(30 * 24 * 6, 600 * SECOND_US);
	before = look(NULL, NULL, "30d", HOST_LOAD).known;
	wall += 3650 * DAY_US;
	take(60, TEN);
	CHECK_INT(look(NULL, NULL, "1h", HOST_LOAD).known, 60);
	wall -= 3650 * DAY_US;
	take(1, TEN);
	/* A span is the price, of 72. */
	CHECK(look(NULL, NULL, "30d", HOST_LOAD).known >= before - 2 * PIECE_READINGS);
	shut();
	open_with(64 * MIB, 1000);
	CHECK(look(NULL, NULL, "30d", HOST_LOAD).known >= before - 2 * PIECE_READINGS);
	end();
}

TEST(a_clock_that_begins_in_1970_removes_nothing)
{
	uint64_t before, now;

	begin();
	n_sandboxes = 1;
	take(30 * 24 * 6, 600 * SECOND_US);
	before = look(NULL, NULL, "30d", HOST_LOAD).known;
	shut();
	now = wall;
	wall = TEN;
	open_with(64 * MIB, 1000);
	take(60, TEN);
	CHECK_INT(look(NULL, NULL, "1h", HOST_LOAD).known, 60);
	wall = now + 700 * SECOND_US;
	take(1, TEN);
	CHECK(look(NULL, NULL, "30d", HOST_LOAD).known >= before - 2 * PIECE_READINGS);
	end();
}

TEST(a_clock_that_is_set_back_replaces_the_time_that_comes_again)
{
	begin();
	n_sandboxes = 1;
	take(300, TEN);
	wall -= 20 * TEN;
	memory_bytes = 7 * MIB;
	take(10, TEN);
	CHECK_INT(look("prj_a", "sb_0", "1h", SANDBOX_MEMORY).last, 7 * MIB);
	CHECK_INT(look("prj_a", "sb_0", "1h", SANDBOX_MEMORY).last_at, 359);
	CHECK_INT(look("prj_a", "sb_0", "1h", SANDBOX_MEMORY).known, 290);
	wall -= 2 * HOUR_US;
	take(1, TEN);
	CHECK_INT(look("prj_a", "sb_0", "1h", SANDBOX_MEMORY).known, 1);
	end();
}

TEST(no_more_spans_are_kept_than_a_month_needs)
{
	begin();
	n_sandboxes = 1;
	take(40 * 24 * 6, 600 * SECOND_US);
	for (unsigned i = 0; i < STEP_COUNT; i++) {
		uint64_t span = 0;
		size_t n = 0;

		while (store_history_span(history->store, i, span, &span, NULL) > 0) {
			n++;
			span++;
		}
		CHECK_INT(n, history_steps[i].spans);
	}
	CHECK_INT(look("prj_a", "sb_0", "30d", SANDBOX_MEMORY).known, 4320);
	end();
}

TEST(the_project_with_most_loses_its_oldest_and_keeps_its_own)
{
	uint64_t before;

	begin();
	shut();
	open_with(MIB / 2, 1000);
	is_second = true;
	n_sandboxes = 5;
	take(360, TEN);
	before = look("prj_b", "sb_b0", "1h", SANDBOX_MEMORY).known;
	is_second = false;
	n_sandboxes = 400;
	take(720, TEN);
	CHECK(history_bytes(history) <= MIB / 2 + 64 * KIB);
	CHECK_INT(before, 360);
	CHECK_INT(look("prj_b", "sb_b0", "24h", SANDBOX_MEMORY).known, 61);
	CHECK(look("prj_a", "sb_0", "24h", SANDBOX_MEMORY).known < 120);
	CHECK(look("prj_a", "sb_0", "1h", SANDBOX_MEMORY).known > 0);
	CHECK_INT(look("prj_a", NULL, "24h", PROJECT_SANDBOXES).last, 400);
	CHECK(look("prj_a", NULL, "24h", PROJECT_SANDBOXES).known > 120);
	end();
}

TEST(the_room_that_is_counted_is_the_room_that_is_taken)
{
	begin();
	n_sandboxes = 3;
	take(700, TEN);
	CHECK(history_project(history, "prj_a")->bytes > 3 * KIB);
	shut();
	open_with(64 * MIB, 1000);
	CHECK(history_project(history, "prj_a")->bytes > 3 * KIB);
	history_forget_project(history, "prj_a");
	CHECK_INT(look("prj_a", "sb_0", "24h", SANDBOX_MEMORY).known, 0);
	CHECK_INT(history_project(history, "prj_a")->bytes, 0);
	end();
}

TEST(a_full_disk_costs_history_alone)
{
	uint64_t bytes;

	begin();
	n_sandboxes = 3;
	take(60, TEN);
	bytes = history_bytes(history);
	has_room = false;
	take(120, TEN);
	CHECK_INT(history_bytes(history), bytes);
	n_sandboxes = 0;
	take(1, TEN);
	history_write_some(loop, history);
	CHECK(history_find_series(history, "sb_0") == NULL);
	has_room = true;
	n_sandboxes = 3;
	take(12, TEN);
	CHECK(history_bytes(history) > bytes);
	end();
}

struct ran {
	size_t n;
	char ids[256];
	uint64_t ended_us, memory_bytes;
};

static void on_run(const struct history_run *run, void *arg)
{
	struct ran *ran = arg;

	ran->n++;
	(void)snprintf(ran->ids + strlen(ran->ids), sizeof(ran->ids) - strlen(ran->ids), "%s ",
	               run->sandbox_id);
	ran->ended_us = run->ended_us;
	ran->memory_bytes = run->memory_bytes;
}

static struct ran ask(uint64_t at_us)
{
	struct history_moment moment = {.project_id = "prj_a", .at_us = at_us, .limit = 100};
	struct ran ran = {0};

	CHECK_INT(history_running(history, &moment, on_run, &ran, NULL), 0);
	return ran;
}

static void began(const char *id, uint64_t at_us)
{
	history_run_began(history, &(struct history_run){.project_id = "prj_a",
	                                                 .sandbox_id = id,
	                                                 .name = "",
	                                                 .template = "python",
	                                                 .began_us = at_us});
}

TEST(what_ran_at_a_moment_is_told_also_behind_a_restart)
{
	begin();
	began("sb_0", START_US + 10);
	began("sb_1", START_US + 20);
	history_run_ended(history, "sb_0", START_US + 30);
	CHECK_INT(ask(START_US + 5).n, 0);
	CHECK_STR(ask(START_US + 25).ids, "sb_0 sb_1 ");
	CHECK_STR(ask(START_US + 30).ids, "sb_1 ");
	shut();
	open_with(64 * MIB, 1000);
	CHECK_STR(ask(START_US + 25).ids, "sb_0 sb_1 ");
	began("sb_1", START_US + 40); /* it was taken up again: the same run */
	CHECK_STR(ask(START_US + 25).ids, "sb_0 sb_1 ");
	CHECK_INT(ask(START_US + 35).ended_us, 0);
	history_run_ended(history, "sb_1", START_US + 50);
	began("sb_1", START_US + 60);
	CHECK_INT(ask(START_US + 55).n, 0);
	CHECK_INT(ask(START_US + 45).ended_us, START_US + 50);
	CHECK_INT(ask(START_US + 65).n, 1);
	end();
}

TEST(what_ran_comes_with_what_it_used)
{
	uint64_t then;

	begin();
	n_sandboxes = 1;
	began("sb_0", wall);
	take(30, TEN);
	then = wall;
	memory_bytes = GIB;
	take(30, TEN);
	CHECK_INT(ask(then).memory_bytes, 64 * MIB);
	CHECK_INT(ask(wall).memory_bytes, GIB);
	end();
}

TEST(runs_are_told_in_pages)
{
	struct history_moment moment = {.project_id = "prj_a", .at_us = START_US + 5, .limit = 2};
	struct ran ran = {0};

	begin();
	began("sb_0", START_US);
	began("sb_1", START_US);
	began("sb_2", START_US);
	history_run_ended(history, "sb_2", START_US + 10);
	CHECK_INT(history_running(history, &moment, on_run, &ran, NULL), 1);
	CHECK_STR(ran.ids, "sb_2 sb_0 ");
	CHECK_INT(history_running(history, &moment, on_run, &ran, NULL), 0);
	CHECK_STR(ran.ids, "sb_2 sb_0 sb_1 ");
	end();
}

TEST(the_oldest_runs_go_first)
{
	begin();
	for (unsigned i = 0; i < 1500; i++) {
		char id[ID_SIZE];

		(void)snprintf(id, sizeof(id), "sb_%04u", i);
		began(id, START_US);
		if (i > 0)
			history_run_ended(history, id, START_US + i);
	}
	CHECK_INT(history_write(history, NULL), 0);
	CHECK(history->n_runs <= 1000);
	CHECK_INT(ask(START_US + 1498).n, 2); /* the last, and the one that runs */
	end();
}

TEST(a_piece_that_makes_no_sense_ends_where_it_does)
{
	auto_call(buf_done) struct buf b = BUF_INIT(PIECE_BYTES_MAX);
	struct reading a = {.at = 3, .n = 1, .of = {7, UINT64_MAX, 0}}, c = {.at = 59, .n = 2};
	struct piece_reader reader;
	struct reading r;

	piece_append(&b, 3, NULL, &a);
	piece_append(&b, 3, &a, &c);
	for (size_t len = 0; len <= b.len; len++) {
		size_t n = 0;

		piece_read(&reader, b.data, len);
		while (piece_next(&reader, &r))
			n++;
		CHECK(n <= 2 && (len < b.len || n == 2));
	}
	CHECK_INT(r.at, 59);
	CHECK_INT(r.of[1], 0);
	for (size_t i = 0; i < b.len; i++) {
		char was = b.data[i];

		b.data[i] = (char)0xff;
		piece_read(&reader, b.data, b.len);
		while (piece_next(&reader, &r))
			CHECK(r.at < PIECE_READINGS);
		b.data[i] = was;
	}
}
