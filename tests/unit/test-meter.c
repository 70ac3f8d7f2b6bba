// SPDX-License-Identifier: Apache-2.0
/* Days, money, and meters over a store of their own. */
#include "base/clock.h"
#include "base/log.h"
#include "base/text/decimal.h"
#include "base/units.h"
#include "tenant/day.h"
#include "tenant/meter.h"
#include "tenant/price.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000)

static char dir[64], db[96];
static struct store *store;
static struct meters *meters;
static struct usage used; /* as told to who listens */

static void on_use(const char *project_id, const char *key_id, const struct usage *more, void *arg)
{
	(void)project_id;
	(void)key_id;
	(void)arg;
	usage_add(&used, more);
}

static void open_books(const char *boot_id)
{
	CHECK_INT(store_open(db, &store, NULL), 0);
	CHECK_INT(meters_open(store, boot_id, &meters, NULL), 0);
	meters_on_use(meters, on_use, NULL);
}

static void close_books(void)
{
	meters_close(meters);
	store_close(store);
}

static void begin(void)
{
	log_init("test", LOG_ERROR + 1);
	used = (struct usage){0};
	(void)snprintf(dir, sizeof(dir), "/tmp/test-meter-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(db, sizeof(db), "%s/state.db", dir);
	open_books("boot-1");
}

static void end(void)
{
	static const char *const suffixes[] = {"", "-wal"};

	close_books();
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		char path[128];

		(void)snprintf(path, sizeof(path), "%s%s", db, suffixes[i]);
		(void)unlink(path);
	}
	CHECK_INT(rmdir(dir), 0);
}

static struct meter *start(const char *id, uint64_t since_us)
{
	return meter_start(meters, &(struct meter_spec){.sandbox_id = id,
	                                                .project_id = "prj_a",
	                                                .key_id = "key_a",
	                                                .memory_limit_bytes = GIB,
	                                                .since_us = since_us});
}

struct sums {
	struct usage all;
	unsigned rows;
	int32_t first_day;
	uint64_t first_ms;
};

static int sum_row(const struct usage_row *row, void *arg)
{
	struct sums *s = arg;

	if (s->rows++ == 0) {
		s->first_day = row->day;
		s->first_ms = row->usage.of[USAGE_RUNNING_MS];
	}
	usage_add(&s->all, &row->usage);
	return 0;
}

/* All that is written about the project. */
static struct sums written(void)
{
	struct sums s = {0};

	CHECK_INT(meters_write(meters, /* is_synced= */ true, NULL), 0);
	CHECK_INT(
		store_usage_each_day(meters_store(meters), "prj_a", 0, DAY_MAX, sum_row, &s, NULL),
		0);
	return s;
}

TEST(a_day_is_what_the_calendar_says_leap_years_included)
{
	static const struct {
		const char *text;
		int32_t day;
		const char *month, *next_month;
	} rows[] = {
		{"1970-01-01", 0, "1970-01-01", "1970-02-01"},
		{"1972-02-29", 789, "1972-02-01", "1972-03-01"},
		{"1999-12-31", 10956, "1999-12-01", "2000-01-01"},
		{"2000-02-29", 11016, "2000-02-01", "2000-03-01"},
		{"2024-02-29", 19782, "2024-02-01", "2024-03-01"},
		{"2026-11-15", 20772, "2026-11-01", "2026-12-01"},
		{"2100-03-01", 47541, "2100-03-01", "2100-04-01"},
		{"9999-12-31", DAY_MAX, "9999-12-01", "10000"},
	};
	char text[DAY_TEXT_SIZE];
	int32_t day;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_INT(day_parse(rows[i].text, &day), 0);
		CHECK_INT(day, rows[i].day);
		day_format(day, text);
		CHECK_STR(text, rows[i].text);
		day_format(day_month(day), text);
		CHECK_STR(text, rows[i].month);
		day_format(day_next_month(day), text);
		if (day != DAY_MAX)
			CHECK_STR(text, rows[i].next_month);
	}
	for (day = 0; day < 150000; day++) {
		int32_t again = -1;

		day_format(day, text);
		if (day_parse(text, &again) < 0 || again != day)
			CHECK_STR(text, "");
	}
}

TEST(a_day_that_does_not_exist_is_refused)
{
	static const char *const texts[] = {"2026-02-29", "2100-02-29", "2026-04-31",
	                                    "2026-13-01", "2026-00-01", "2026-01-00",
	                                    "1969-12-31", "2026-1-1",   "2026-01-01 ",
	                                    "20260101",   "",           "2026-01-0x"};
	int32_t day;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_INT(day_parse(texts[i], &day), -EINVAL);
}

TEST(midnight_begins_the_next_day)
{
	CHECK_INT(day_of(DAY_US - 1), 0);
	CHECK_INT(day_of(DAY_US), 1);
	CHECK_INT(day_of(UINT64_MAX), DAY_MAX);
}

TEST(an_amount_is_exact_to_nine_decimals)
{
	static const struct {
		const char *text;
		uint64_t nano;
		const char *again;
	} rows[] = {
		{"0", 0, "0.00"},
		{"12", 12000000000, "12.00"},
		{"0.05", 50000000, "0.05"},
		{"0.1", 100000000, "0.10"},
		{"0.000000001", 1, "0.000000001"},
		{"3.14159265", 3141592650, "3.14159265"},
		{"18446744072.999999999", 18446744072999999999U, "18446744072.999999999"},
	};
	static const char *const bad[] = {"",    ".",  "1.",  ".5", "-1",  "1,5", "0.0000000001",
	                                  "1e3", "01", "0x1", " 1", "1.5 "};
	char text[DECIMAL_SIZE];
	uint64_t nano;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_INT(decimal_parse(rows[i].text, &nano), 0);
		CHECK_INT(nano, rows[i].nano);
		decimal_format(nano, text);
		CHECK_STR(text, rows[i].again);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(decimal_parse(bad[i], &nano), -EINVAL);
	CHECK_INT(decimal_parse("18446744073.0", &nano), -ERANGE);
}

TEST(a_cost_is_the_sum_of_its_parts_in_whole_billionths)
{
	const struct prices prices = {.cpu_hour = 50000000,
	                              .memory_gib_hour = 10000000,
	                              .disk_gib_month = 100000000,
	                              .network_gib = 20000000,
	                              .create = 7};
	struct usage u = {.of = {[USAGE_CPU_NS] = UINT64_C(3600) * 1000000000 * 2,
	                         [USAGE_MEMORY_MIB_MS] = UINT64_C(1024) * 3600000 / 2,
	                         [USAGE_DISK_MIB_MS] = UINT64_C(1024) * 30 * 24 * 3600000,
	                         [USAGE_NETWORK_IN_BYTES] = GIB,
	                         [USAGE_NETWORK_OUT_BYTES] = GIB / 2,
	                         [USAGE_CREATES] = 3}};
	struct usage small = {.of = {[USAGE_CPU_NS] = 72000 - 1}};

	CHECK_INT(price_cost(&prices, &u), 100000000 + 5000000 + 100000000 + 30000000 + 21);
	CHECK_INT(price_cost(&prices, &small), 0); /* a nano is 72 µs of this CPU */
	small.of[USAGE_CPU_NS]++;
	CHECK_INT(price_cost(&prices, &small), 1);
}

TEST(sums_that_do_not_fit_stay_at_the_largest_number)
{
	struct usage u = {.of = {[USAGE_CPU_NS] = UINT64_MAX - 1}};
	const struct prices prices = {.cpu_hour = UINT64_MAX};

	usage_add(&u, &u);
	CHECK(u.of[USAGE_CPU_NS] == UINT64_MAX);
	CHECK(price_cost(&prices, &u) == UINT64_MAX);
	CHECK_INT(scale_u64(UINT64_MAX, 3, 3) == UINT64_MAX, 1);
	CHECK_INT(scale_u64(10, 10, 3), 33);
}

TEST(a_life_is_charged_for_its_time_memory_and_counters)
{
	uint64_t now = clock_steady_us();
	struct meter *m;
	struct sums s;

	begin();
	m = start("sb_a", now - 10 * SECOND);
	meter_count_exec(m);
	meter_count_calls(m, 1);
	meter_count_network(m, 100, 20);
	meter_close(m,
	            &(struct guest_usage){
			    .cpu_ns = 1234567, .memory_peak_bytes = GIB / 2, .disk_bytes = GIB / 4},
	            now);
	s = written();
	CHECK_INT(s.all.of[USAGE_RUNNING_MS], 10000);
	CHECK_INT(s.all.of[USAGE_CPU_NS], 1234567);
	CHECK_INT(s.all.of[USAGE_MEMORY_MIB_MS], 1024 * 10000);
	CHECK_INT(s.all.of[USAGE_MEMORY_USED_MIB_MS], 512 * 10000);
	CHECK_INT(s.all.of[USAGE_DISK_MIB_MS], 128 * 10000); /* from nothing to a quarter */
	CHECK_INT(s.all.of[USAGE_NETWORK_IN_BYTES], 100);
	CHECK_INT(s.all.of[USAGE_NETWORK_OUT_BYTES], 20);
	CHECK_INT(s.all.of[USAGE_EXECS], 1);
	CHECK_INT(s.all.of[USAGE_CALLS], 1);
	CHECK_INT(s.all.of[USAGE_CREATES], 1);
	CHECK_MEM(&s.all, sizeof(s.all), &used, sizeof(used));
	CHECK(meter_find(meters, "sb_a") == NULL);
	end();
}

TEST(a_restart_adds_the_difference_only)
{
	uint64_t now = clock_steady_us();
	struct meter *m;
	struct sums s;

	begin();
	m = start("sb_a", now - 10 * SECOND);
	meter_read(m, &(struct guest_usage){.cpu_ns = 1000, .memory_bytes = GIB});
	for (int i = 0; i < 3; i++) {
		close_books();
		open_books("boot-1");
		m = meter_find(meters, "sb_a");
		CHECK(m != NULL);
		meter_read(m, &(struct guest_usage){.cpu_ns = 1000, .memory_bytes = GIB});
	}
	meter_close(m, &(struct guest_usage){.cpu_ns = 1500}, clock_steady_us());
	s = written();
	CHECK_INT(s.all.of[USAGE_CPU_NS], 1500);
	CHECK_INT(s.all.of[USAGE_CREATES], 1);
	CHECK(s.all.of[USAGE_RUNNING_MS] >= 10000);
	CHECK(s.all.of[USAGE_RUNNING_MS] <= (clock_steady_us() - now) / 1000 + 10000);
	end();
}

TEST(a_counter_that_cannot_be_read_or_goes_back_takes_nothing_away)
{
	uint64_t now = clock_steady_us();
	struct meter *m;

	begin();
	m = start("sb_a", now);
	meter_read(m, &(struct guest_usage){.cpu_ns = 1000});
	meter_read(m, &(struct guest_usage){0});
	meter_read(m, &(struct guest_usage){.cpu_ns = 1100});
	meter_close(m, NULL, now);
	CHECK_INT(written().all.of[USAGE_CPU_NS], 1100);
	end();
}

TEST(what_was_used_before_it_was_somebodys_is_not_charged)
{
	uint64_t now = clock_steady_us();
	struct meter *m;

	begin();
	m = meter_start(meters, &(struct meter_spec){.sandbox_id = "sb_a",
	                                             .project_id = "prj_a",
	                                             .key_id = "",
	                                             .since_us = now,
	                                             .base = {.cpu_ns = 5000}});
	meter_close(m, &(struct guest_usage){.cpu_ns = 5001}, now);
	CHECK_INT(written().all.of[USAGE_CPU_NS], 1);
	end();
}

TEST(one_that_is_held_pays_for_its_disk_alone_and_then_begins_on_fresh_counters)
{
	uint64_t now = clock_steady_us();
	struct meter *m;
	struct sums s;

	begin();
	m = start("sb_a", now - 10 * SECOND);
	meter_hold(m, &(struct guest_usage){.cpu_ns = 1000, .disk_bytes = GIB}, now - 5 * SECOND);
	meter_resume(m, GIB);
	s = written();
	CHECK_INT(s.all.of[USAGE_RUNNING_MS], 5000);
	CHECK_INT(s.all.of[USAGE_MEMORY_MIB_MS], 1024 * 5000);
	CHECK(s.all.of[USAGE_DISK_MIB_MS] >= 512 * 5000 + 1024 * 5000);
	meter_close(m, &(struct guest_usage){.cpu_ns = 700, .disk_bytes = GIB}, 0);
	CHECK_INT(written().all.of[USAGE_CPU_NS], 1700);
	end();
}

TEST(a_new_memory_limit_counts_from_the_change_on)
{
	uint64_t now = clock_steady_us();
	struct meter *m;

	begin();
	m = start("sb_a", now - 10 * SECOND);
	meter_set_memory_limit(m, 2 * GIB);
	meter_close(m, NULL, 0);
	CHECK(written().all.of[USAGE_MEMORY_MIB_MS] >= 1024 * 10000);
	CHECK(written().all.of[USAGE_MEMORY_MIB_MS] < 2048 * 10000);
	end();
}

TEST(a_stretch_over_midnights_is_shared_out_to_its_days)
{
	uint64_t len = 3 * DAY_US, now;
	struct meter *m;
	struct sums s;

	begin();
	now = clock_steady_us();
	if (now < len + SECOND) { /* the machine is younger: the clock began at its start */
		len = now - SECOND;
	}
	m = start("sb_a", now - len);
	meter_close(m, &(struct guest_usage){.cpu_ns = 1000003}, now);
	s = written();
	CHECK_INT(s.all.of[USAGE_RUNNING_MS], len / 1000);
	CHECK_INT(s.all.of[USAGE_CPU_NS], 1000003);
	CHECK_INT(s.rows, day_of(clock_wall_us()) - s.first_day + 1);
	if (len == 3 * DAY_US)
		CHECK_INT(s.rows, 4);
	end();
}

TEST(after_a_restart_of_the_machine_nothing_is_charged_for_what_nobody_saw)
{
	uint64_t now = clock_steady_us();
	struct meter *m;

	begin();
	(void)start("sb_a", now - 10 * SECOND);
	close_books();
	open_books("boot-2");
	m = meter_find(meters, "sb_a");
	CHECK(m != NULL);
	meter_close(m, NULL, clock_steady_us());
	CHECK(written().all.of[USAGE_RUNNING_MS] < 5000);
	end();
}

TEST(a_closed_meter_stays_closed_over_a_restart)
{
	uint64_t now = clock_steady_us();

	begin();
	meter_close(start("sb_a", now - SECOND), NULL, now);
	close_books();
	open_books("boot-1");
	CHECK(meter_find(meters, "sb_a") == NULL);
	CHECK_INT(written().all.of[USAGE_RUNNING_MS], 1000);
	end();
}

TEST(old_days_of_sandboxes_go_and_those_of_projects_stay)
{
	struct sums s = {0};
	uint64_t now = clock_steady_us();

	begin();
	meter_close(start("sb_a", now - SECOND), NULL, now);
	CHECK_INT(store_usage_prune(meters_store(meters), day_of(clock_wall_us()), NULL), 0);
	CHECK_INT(store_usage_each_sandbox(meters_store(meters), "prj_a", "", sum_row, &s, NULL),
	          0);
	CHECK(s.rows >= 1);
	CHECK_INT(store_usage_prune(meters_store(meters), DAY_MAX, NULL), 0);
	s = (struct sums){0};
	CHECK_INT(store_usage_each_sandbox(meters_store(meters), "prj_a", "", sum_row, &s, NULL),
	          0);
	CHECK_INT(s.rows, 0);
	CHECK_INT(written().all.of[USAGE_RUNNING_MS], 1000);
	end();
}
