// SPDX-License-Identifier: Apache-2.0
#include "daemon/dial_rules.h"
#include "test.h"

#include <string.h>

TEST(a_place_of_a_setting_is_one_host_and_one_port)
{
	struct dial_rules rules = {0};
	struct err err;

	CHECK_INT(dial_rules_add_place(&rules, "x", NULL, &err), 0);
	CHECK_INT(dial_rules_add_place(&rules, "x", "", &err), 0);
	CHECK_INT(rules.n_places, 0);
	CHECK_INT(dial_rules_add_place(&rules, "x", "https://Collector.Example/v1", &err), 0);
	CHECK_INT(dial_rules_add_place(&rules, "x", "http://127.0.0.1:4318", &err), 0);
	CHECK_INT(dial_rules_add_place(&rules, "x", "http://[::1]:4318", &err), 0);
	CHECK(dial_rules_name(&rules, "collector.example", 443));
	CHECK(dial_rules_name(&rules, "127.0.0.1", 4318));
	CHECK(dial_rules_name(&rules, "::1", 4318));
	CHECK(!dial_rules_name(&rules, "collector.example", 80));
	CHECK(!dial_rules_name(&rules, "a.collector.example", 443));
	CHECK(!dial_rules_name(&rules, "127.0.0.1", 22));
	CHECK(!dial_rules_name(&rules, "127.0.0.2", 4318));
}

TEST(a_place_that_cannot_be_read_names_its_setting)
{
	struct dial_rules rules = {0};
	struct err err;

	CHECK(dial_rules_add_place(&rules, "telemetry.url", "collector:4318", &err) < 0);
	CHECK(strstr(err.field, "telemetry.url") != NULL);
	while (rules.n_places < DIAL_PLACES_MAX)
		CHECK_INT(dial_rules_add_place(&rules, "x", "http://a.example", &err), 0);
	CHECK(dial_rules_add_place(&rules, "x", "http://a.example", &err) < 0);
}

TEST(ranges_come_from_the_settings)
{
	char good[] = "10.1.0.0/16", bad[] = "10.1";
	char *list[] = {good, NULL};
	struct config config = {.webhooks_allow = list};
	struct dial_rules rules;
	struct err err;

	CHECK_INT(dial_rules_read(&rules, &config, &err), 0);
	CHECK_INT(rules.n_ranges, 1);
	list[0] = bad;
	CHECK(dial_rules_read(&rules, &config, &err) < 0);
	CHECK(strstr(err.message, "10.1") != NULL);
}
