// SPDX-License-Identifier: Apache-2.0
/* Quotas over a store of their own, and clocks that the test sets. */
#include "base/log.h"
#include "base/units.h"
#include "tenant/day.h"
#include "tenant/quota.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000)
#define NANO   UINT64_C(1000000000)

static char dir[64], db[96];
static struct store *store;
static struct quota *quota;
static uint64_t steady_us, wall_us;
static const struct quota_owner owner = {"prj_a", "key_a"}, other = {"prj_a", ""};
static const struct quota_held one = {.of = {1, 1000, GIB, GIB}};
static const struct quota_limits unlimited = {.of = {QUOTA_UNLIMITED, QUOTA_UNLIMITED,
                                                     QUOTA_UNLIMITED, QUOTA_UNLIMITED,
                                                     QUOTA_UNLIMITED, QUOTA_UNLIMITED}};

static uint64_t steady(void)
{
	return steady_us;
}

static uint64_t wall(void)
{
	return wall_us;
}

static void open_quota(void)
{
	const struct quota_config config = {
		.store = store,
		.defaults = unlimited,
		.prices = {.cpu_hour = 3600 * NANO, .create = NANO / 100},
		.currency = "EUR",
		.ahead_ms = 1000,
		.steady_us = steady,
		.wall_us = wall,
	};

	CHECK_INT(quota_open(&config, &quota, NULL), 0);
}

static void begin_on(const char *day)
{
	int32_t number = 0;

	log_init("test", LOG_ERROR + 1);
	CHECK_INT(day_parse(day, &number), 0);
	wall_us = (uint64_t)number * DAY_US + 1;
	steady_us = 1000 * SECOND;
	(void)snprintf(dir, sizeof(dir), "/tmp/test-quota-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(db, sizeof(db), "%s/state.db", dir);
	CHECK_INT(store_open(db, &store, NULL), 0);
	open_quota();
}

static void begin(void)
{
	begin_on("2026-11-15");
}

static void end(void)
{
	quota_close(quota);
	store_close(store);
	CHECK_INT(unlink(db), 0);
	CHECK_INT(rmdir(dir), 0);
}

static void set(const struct quota_owner *who, const char *limits)
{
	auto_json json_t *object = NULL;
	struct quota_setting setting;

	CHECK_INT(json_parse(limits, strlen(limits), &object, NULL), 0);
	CHECK_INT(quota_setting_read(object, &setting, NULL), 0);
	CHECK_INT(quota_set(quota, who, &setting, NULL), 0);
}

static struct err admit(const struct quota_owner *who)
{
	struct err err = {0};

	(void)!quota_admit(quota, who, &one, /* is_create= */ true, &err);
	return err;
}

static void use_cpu(uint64_t seconds)
{
	quota_on_use("prj_a", "key_a", &(struct usage){.of = {[USAGE_CPU_NS] = seconds * NANO}},
	             quota);
}

static const char *shown(const struct quota_owner *who)
{
	static char text[2048];
	auto_call(buf_done) struct buf out = BUF_INIT(sizeof(text) - 1);
	struct json_writer w;

	json_writer_init(&w, &out);
	quota_to_json(quota, who, &w, NULL);
	CHECK_INT(json_writer_end(&w), 0);
	(void)snprintf(text, sizeof(text), "%s", buf_str(&out));
	return text;
}

TEST(what_is_taken_is_refused_to_the_next_until_it_is_given_back)
{
	struct err err;

	begin();
	set(&other, "{\"sandboxes\": 2}");
	CHECK_INT(admit(&owner).code, ERR_NONE);
	CHECK_INT(admit(&other).code, ERR_NONE);
	err = admit(&owner);
	CHECK_INT(err.code, ERR_QUOTA);
	CHECK_STR(err.quota.what, "sandboxes");
	CHECK_STR(err.quota.limit, "2");
	CHECK_STR(err.quota.current, "2");
	CHECK_INT(err.quota.retry_after_ms, 0);
	quota_give(quota, &owner, &one);
	CHECK_INT(admit(&owner).code, ERR_NONE);
	end();
}

TEST(a_refusal_by_the_key_takes_nothing_from_the_project)
{
	begin();
	set(&other, "{\"sandboxes\": 2, \"creates_per_minute\": 2}");
	set(&owner, "{\"vcpus\": 0.5}");
	CHECK_STR(admit(&owner).quota.limit, "0.500");
	CHECK_INT(admit(&other).code, ERR_NONE);
	CHECK_INT(admit(&other).code, ERR_NONE);
	CHECK_STR(admit(&other).quota.what, "sandboxes");
	end();
}

TEST(more_than_is_held_cannot_be_given_back)
{
	begin();
	quota_give(quota, &owner, &one);
	CHECK(strstr(shown(&owner), "\"current\":{\"sandboxes\":0,\"vcpus\":0,") != NULL);
	end();
}

TEST(a_bucket_of_creates_fills_evenly_and_holds_a_minutes_worth)
{
	struct err err;

	begin();
	set(&other, "{\"creates_per_minute\": 6}");
	for (int i = 0; i < 6; i++)
		CHECK_INT(admit(&other).code, ERR_NONE);
	err = admit(&other);
	CHECK_STR(err.quota.what, "creates_per_minute");
	CHECK_INT(err.quota.retry_after_ms, 10001);
	steady_us += 10 * SECOND - 1;
	CHECK_INT(admit(&other).code, ERR_QUOTA);
	steady_us += 1;
	CHECK_INT(admit(&other).code, ERR_NONE);
	CHECK_INT(admit(&other).code, ERR_QUOTA);
	steady_us += UINT64_C(3600) * 24 * 365 * SECOND;
	for (int i = 0; i < 6; i++)
		CHECK_INT(admit(&other).code, ERR_NONE);
	CHECK_INT(admit(&other).code, ERR_QUOTA);
	end();
}

TEST(a_rate_of_none_never_lets_one_through)
{
	struct err err;

	begin();
	set(&other, "{\"creates_per_minute\": 0}");
	steady_us += UINT64_C(3600) * SECOND;
	err = admit(&other);
	CHECK_INT(err.code, ERR_QUOTA);
	CHECK_INT(err.quota.retry_after_ms, 0);
	end();
}

TEST(a_budget_keeps_back_what_could_be_used_until_the_next_look)
{
	struct err err = {0};

	begin();
	set(&other, "{\"budget\": \"5\"}"); /* a CPU second is 1, a look a second away */
	CHECK_INT(admit(&owner).code, ERR_NONE);
	use_cpu(3);
	CHECK(!quota_is_spent(quota, &owner, &err));
	CHECK_INT(admit(&owner).code, ERR_BUDGET); /* 3 spent, 2 ahead, and the create */
	use_cpu(1);
	CHECK(!quota_is_spent(quota, &owner, &err));
	use_cpu(1);
	CHECK(quota_is_spent(quota, &owner, &err));
	CHECK_INT(err.code, ERR_BUDGET);
	CHECK_STR(err.quota.limit, "5.00");
	CHECK_STR(err.quota.current, "5.00");
	end();
}

TEST(a_new_month_of_utc_begins_with_the_whole_budget)
{
	static const struct {
		const char *day;
		unsigned days; /* until the first of the next month */
	} rows[] = {{"2026-11-15", 16}, {"2024-02-28", 2}, {"2026-02-28", 1}, {"2026-12-31", 1}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;

		begin_on(rows[i].day);
		set(&other, "{\"budget\": \"5\"}");
		use_cpu(5);
		err = admit(&owner);
		CHECK_INT(err.code, ERR_BUDGET);
		CHECK_INT(err.quota.retry_after_ms, rows[i].days * (DAY_US / 1000));
		wall_us += rows[i].days * DAY_US - 2;
		CHECK_INT(admit(&owner).code, ERR_BUDGET);
		wall_us += 1;
		CHECK_INT(admit(&owner).code, ERR_NONE);
		end();
	}
}

TEST(limits_and_what_the_month_has_cost_outlive_a_restart)
{
	begin();
	set(&owner, "{\"budget\": \"5\", \"memory_mib\": 2048, \"vcpus\": 1.5, \"sandboxes\": "
	            "\"unlimited\", \"max_limits\": {\"vcpus\": 0.5, \"pids\": 64}, "
	            "\"max_timeout_ms\": 1000}");
	quota_close(quota);
	{
		struct store_usage *su;
		const struct usage_row row = {.project_id = "prj_a",
		                              .key_id = "key_a",
		                              .sandbox_id = "sb_a",
		                              .day = day_of(wall_us),
		                              .usage = {.of = {[USAGE_CPU_NS] = 5 * NANO}}};

		CHECK_INT(store_usage_open(store, &su, NULL), 0);
		CHECK_INT(store_usage_add(su, &row, NULL), 0);
		store_usage_close(su);
	}
	open_quota();
	CHECK_STR(shown(&owner),
	          "{\"project_id\":\"prj_a\",\"key_id\":\"key_a\",\"currency\":\"EUR\","
	          "\"month\":\"2026-11-01\",\"limits\":{\"sandboxes\":\"unlimited\",\"vcpus\":1.5,"
	          "\"memory_mib\":2048,\"disk_mib\":\"unlimited\",\"creates_per_minute\":"
	          "\"unlimited\","
	          "\"budget\":\"5.00\"},\"max_limits\":{\"vcpus\":0.5,\"memory_mib\":null,"
	          "\"disk_mib\":null,\"inodes\":null,\"pids\":64,\"open_files\":null,"
	          "\"output_mib\":null,\"execs\":null},"
	          "\"max_timeout_ms\":1000,\"weight\":null,\"events_age_ms\":null,\"current\":{"
	          "\"sandboxes\":0,\"vcpus\":0,\"memory_mib\":0,"
	          "\"disk_mib\":0,\"creates_per_minute\":0,\"budget\":\"5.00\"},"
	          "\"cluster\":null}");
	CHECK_INT(admit(&owner).code, ERR_BUDGET);
	end();
}
