// SPDX-License-Identifier: Apache-2.0
/* Quotas that nodes share, against answers that the test gives in the database's place. */
#include "base/log.h"
#include "base/units.h"
#include "tenant/quota_lease.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#define CALLS_MAX 16

static char dir[64], db[96];
static struct store *store;
static struct quota *quota;
static uint64_t steady_us, wall_us;
static bool is_shared_now, is_cut;
static unsigned n_wanted;
static const struct quota_owner owner = {"prj_a", ""};
static const struct quota_held one = {.of = {1, 0, 0, 0}};

static uint64_t steady(void)
{
	return steady_us;
}

static uint64_t wall(void)
{
	return wall_us;
}

static bool is_shared(const struct quota_owner *who, bool is_key, void *arg)
{
	(void)who;
	(void)is_key;
	(void)arg;
	return is_shared_now;
}

static int check_reach(struct err *err, void *arg)
{
	(void)arg;
	return is_cut ? err_set(err, ERR_CLUSTER, 0, "cut off") : 0;
}

static void on_wanted(void *arg)
{
	(void)arg;
	n_wanted++;
}

static void set(const char *limits)
{
	auto_json json_t *object = NULL;
	struct quota_setting setting;

	CHECK_INT(json_parse(limits, strlen(limits), &object, NULL), 0);
	CHECK_INT(quota_setting_read(object, &setting, NULL), 0);
	CHECK_INT(quota_set(quota, &owner, &setting, NULL), 0);
}

static void begin(void)
{
	static const struct quota_sharing sharing = {
		.is_shared = is_shared, .check = check_reach, .wanted = on_wanted};
	struct quota_config config = {.store = NULL,
	                              .currency = "EUR",
	                              .ahead_ms = 1000,
	                              .steady_us = steady,
	                              .wall_us = wall};

	log_init("test", LOG_ERROR + 1);
	for (unsigned i = 0; i < QUOTA_COUNT; i++)
		config.defaults.of[i] = QUOTA_UNLIMITED;
	wall_us = UINT64_C(1790000000) * SECOND_US;
	steady_us = 1000 * SECOND_US;
	is_shared_now = true;
	is_cut = false;
	n_wanted = 0;
	(void)snprintf(dir, sizeof(dir), "/tmp/test-quota-lease-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(db, sizeof(db), "%s/state.db", dir);
	CHECK_INT(store_open(db, &store, NULL), 0);
	config.store = store;
	CHECK_INT(quota_open(&config, &quota, NULL), 0);
	quota_share(quota, &sharing, NULL);
}

static void end(void)
{
	quota_close(quota);
	store_close(store);
	CHECK_INT(unlink(db), 0);
	CHECK_INT(rmdir(dir), 0);
}

static struct err admit(void)
{
	struct err err = {0};

	(void)!quota_admit(quota, &owner, &one, /* is_create= */ true, &err);
	return err;
}

/* The only call that is due. */
static struct quota_lease_ask due(void)
{
	struct quota_lease_ask asks[CALLS_MAX];

	CHECK_INT(quota_leases_due(quota, asks, CALLS_MAX), 1);
	return asks[0];
}

static size_t n_due(void)
{
	struct quota_lease_ask asks[CALLS_MAX];

	return quota_leases_due(quota, asks, CALLS_MAX);
}

static bool answer(const struct quota_lease_ask *ask, uint64_t total, uint64_t limit,
                   uint64_t leased)
{
	return quota_lease_answered(quota, &(struct quota_lease_answer){.owner = ask->owner,
	                                                                .what = ask->what,
	                                                                .number = ask->call.number,
	                                                                .total = total,
	                                                                .has_total = true,
	                                                                .limit = limit,
	                                                                .leased = leased,
	                                                                .used = leased});
}

/* The first call after a limit was set is behind it, and the database has nothing for this node. */
static void settle(void)
{
	while (n_due() > 0)
		;
	quota_leases_forget(quota);
	quota_lease_own(quota, "prj_a", "sandboxes", 1, 0);
}

TEST(a_machine_that_is_alone_has_no_leases)
{
	begin();
	is_shared_now = false;
	set("{\"sandboxes\": 2}");
	CHECK_INT(admit().code, ERR_NONE);
	CHECK_INT(admit().code, ERR_NONE);
	CHECK_INT(admit().code, ERR_QUOTA);
	CHECK_INT(n_due(), 0);
	CHECK_INT(n_wanted, 0);
	end();
}

TEST(without_a_limit_nobody_is_asked)
{
	begin();
	for (int i = 0; i < 100; i++)
		CHECK_INT(admit().code, ERR_NONE);
	CHECK_INT(n_due(), 0);
	CHECK_INT(n_wanted, 0);
	end();
}

TEST(what_is_not_leased_is_asked_for_and_then_admitted)
{
	struct quota_lease_ask ask;
	struct err err;

	begin();
	set("{\"sandboxes\": 10}");
	settle();
	err = admit();
	CHECK_INT(err.code, ERR_QUOTA);
	CHECK(err.quota.is_asked);
	CHECK(n_wanted > 0);
	ask = due();
	CHECK_STR(ask.owner, "prj_a");
	CHECK_STR(ask.what, "sandboxes");
	CHECK_INT(ask.call.least, 1);
	CHECK(answer(&ask, 1, 10, 1));
	CHECK_INT(admit().code, ERR_NONE);
	CHECK_INT(admit().code, ERR_QUOTA);
	end();
}

TEST(a_grant_of_more_than_was_asked_for_gives_no_more)
{
	struct quota_lease_ask ask;

	begin();
	set("{\"sandboxes\": 100}");
	settle();
	CHECK_INT(admit().code, ERR_QUOTA);
	ask = due();
	CHECK(answer(&ask, UINT64_MAX / 2, 100, 100));
	for (uint64_t i = 0; i < ask.call.total; i++)
		CHECK_INT(admit().code, ERR_NONE);
	CHECK_INT(admit().code, ERR_QUOTA);
	end();
}

TEST(an_old_number_says_that_the_leases_have_to_be_read_anew)
{
	struct quota_lease_ask ask;

	begin();
	set("{\"sandboxes\": 10}");
	settle();
	CHECK_INT(admit().code, ERR_QUOTA);
	ask = due();
	CHECK(!quota_lease_answered(
		quota, &(struct quota_lease_answer){
			       .owner = ask.owner, .what = ask.what, .number = ask.call.number}));
	CHECK_INT(admit().code, ERR_QUOTA);
	end();
}

TEST(what_exists_already_is_borrowed_and_admits_nothing)
{
	struct quota_lease_ask ask;

	begin();
	for (int i = 0; i < 5; i++)
		CHECK_INT(admit().code, ERR_NONE);
	set("{\"sandboxes\": 6}");
	settle();
	ask = due();
	CHECK_INT(ask.call.least, 5);
	CHECK_INT(ask.spent, 5);
	CHECK(answer(&ask, 3, 6, 6)); /* another node has the rest */
	CHECK_INT(admit().code, ERR_QUOTA);
	end();
}

TEST(a_limit_that_was_lowered_admits_nothing_until_no_more_is_leased)
{
	struct quota_lease_ask ask;

	begin();
	set("{\"sandboxes\": 10}");
	settle();
	quota_lease_own(quota, "prj_a", "sandboxes", 1, 4);
	for (int i = 0; i < 3; i++)
		CHECK_INT(admit().code, ERR_NONE);
	set("{\"sandboxes\": 5}");
	CHECK_INT(admit().code,
	          ERR_QUOTA); /* there is a free one, and the database has not said yet */
	ask = due();
	CHECK_INT(ask.call.total, 3); /* which goes back */
	CHECK(answer(&ask, 3, 5, 7));
	quota_give(quota, &owner, &one);
	CHECK_INT(admit().code, ERR_QUOTA);
	steady_us += SECOND_US;
	ask = due();
	CHECK_INT(ask.call.total, 2);
	CHECK(answer(&ask, 2, 5, 4));
	CHECK_INT(admit().code, ERR_QUOTA);
	ask = due();
	CHECK_INT(ask.call.least, 3);
	CHECK(answer(&ask, 3, 5, 5));
	CHECK_INT(admit().code, ERR_NONE);
	end();
}

TEST(without_the_database_what_is_held_is_admitted_and_no_more)
{
	struct err err;

	begin();
	set("{\"sandboxes\": 10}");
	settle();
	quota_lease_own(quota, "prj_a", "sandboxes", 1, 2);
	is_cut = true;
	CHECK_INT(admit().code, ERR_NONE);
	CHECK_INT(admit().code, ERR_NONE);
	err = admit();
	CHECK_INT(err.code, ERR_CLUSTER);
	CHECK(!err.quota.is_asked);
	end();
}

TEST(what_is_known_no_more_admits_nothing)
{
	begin();
	set("{\"sandboxes\": 10}");
	settle();
	quota_lease_own(quota, "prj_a", "sandboxes", 1, 5);
	CHECK_INT(admit().code, ERR_NONE);
	quota_leases_forget(quota);
	CHECK_INT(admit().code, ERR_QUOTA);
	end();
}

TEST(where_nothing_is_left_a_flood_asks_once_a_second_in_the_end)
{
	struct quota_lease_ask asks[CALLS_MAX];
	unsigned n_calls = 0, n_hopeless = 0;

	begin();
	set("{\"sandboxes\": 10}");
	settle();
	for (unsigned i = 0; i < 1000; i++, steady_us += SECOND_US / 100) {
		n_hopeless += !admit().quota.is_asked;
		if (quota_leases_due(quota, asks, CALLS_MAX) == 0)
			continue;
		n_calls++;
		CHECK(answer(&asks[0], 0, 10, 10));
	}
	CHECK(n_calls >= 10 && n_calls <= 25); /* four a second at first */
	CHECK(n_hopeless >= 600);
	end();
}

TEST(creates_a_minute_are_bought_and_used_once)
{
	struct quota_rate_ask ask;
	struct err err;

	begin();
	set("{\"creates_per_minute\": 3}");
	err = admit();
	CHECK_INT(err.code, ERR_QUOTA);
	CHECK(err.quota.is_asked);
	CHECK(quota_rate_due(quota, &ask));
	CHECK_INT(ask.n, 1);
	CHECK(!quota_rate_due(quota, &ask));
	quota_rate_answered(quota, &ask, 1, 0);
	CHECK_INT(admit().code, ERR_NONE);
	CHECK_INT(admit().code, ERR_QUOTA);
	CHECK(quota_rate_due(quota, &ask));
	quota_rate_answered(quota, &ask, 0, 5000);
	err = admit();
	CHECK_INT(err.code, ERR_QUOTA);
	CHECK(!err.quota.is_asked);
	CHECK(err.quota.retry_after_ms > 4000 && err.quota.retry_after_ms <= 5001);
	CHECK(!quota_rate_due(quota, &ask));
	end();
}

TEST(a_budget_is_leased_by_the_month)
{
	struct quota_lease_ask asks[CALLS_MAX];

	begin();
	set("{\"budget\": \"5.00\"}");
	CHECK_INT(quota_leases_due(quota, asks, CALLS_MAX), 1);
	CHECK_STR(asks[0].what, "budget:2026-09-01");
	end();
}
