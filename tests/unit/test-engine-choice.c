// SPDX-License-Identifier: Apache-2.0
/* Which engine a sandbox gets that asks for none, by what the host was seen to do. */
#include "sandbox/model/create_rules.h"
#include "test.h"

#include <string.h>

#define JAIL (engine_find_name("jail")->number)
#define VM   (engine_find_name("vm")->number)

static struct fleet fleet;

static void host(enum grade vm_grade, enum engine_speed speed)
{
	fleet = (struct fleet){0};
	fleet.probe.probe.engines[0].isolation =
		(struct isolation){.engine = JAIL, .grade = GRADE_PROCESS};
	fleet.probe.probe.engines[1].isolation =
		(struct isolation){.engine = VM, .grade = vm_grade};
	fleet.probe.probe.engines[1].speed = speed;
}

static uint32_t choose(const char *engine, const char *grade, bool needs_base)
{
	uint32_t ret = 0;
	struct err err;

	return engine_choose(&fleet, engine, grade, 0, needs_base, &ret, &err) < 0 ? 0 : ret;
}

static const char *why(void)
{
	static char text[256];

	(void)engine_default(&fleet, text, sizeof(text));
	return text;
}

TEST(a_machine_is_given_where_the_hardware_was_seen_to_run_one)
{
	host(GRADE_HARDWARE, SPEED_FULL);
	CHECK_INT(choose(NULL, NULL, false), VM);
	CHECK(strstr(why(), "runs guests at full speed"));
	CHECK_INT(choose("jail", NULL, false), JAIL);
	CHECK_INT(choose(NULL, "process", false), VM);
	CHECK_INT(engine_untried(&fleet), 0);
}

TEST(what_no_machine_can_have_is_a_jail_and_a_grade_that_was_asked_for_is_kept)
{
	host(GRADE_HARDWARE, SPEED_FULL);
	CHECK_INT(choose(NULL, NULL, true), JAIL);
	CHECK_INT(choose(NULL, "hardware", true), VM);
	CHECK_INT(choose("vm", NULL, true), VM);
}

TEST(a_device_that_only_opens_is_no_reason)
{
	static const struct {
		enum grade grade;
		enum engine_speed speed;
		const char *why;
	} rows[] = {
		{GRADE_HARDWARE, SPEED_UNTRIED, "not tried yet"},
		{GRADE_HARDWARE, SPEED_SLOW, "takes long"},
		{GRADE_EMULATED, SPEED_EMULATED, "emulated ones are slow"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		host(rows[i].grade, rows[i].speed);
		CHECK_INT(choose(NULL, NULL, false), JAIL);
		CHECK(strstr(why(), rows[i].why));
		CHECK_INT(engine_untried(&fleet), rows[i].speed == SPEED_UNTRIED ? VM : 0);
	}
	CHECK_INT(choose(NULL, "emulated", false), VM);
}

TEST(the_operator_decides_otherwise)
{
	host(GRADE_HARDWARE, SPEED_FULL);
	fleet.config.default_engine = JAIL;
	CHECK_INT(choose(NULL, NULL, false), JAIL);
	CHECK(strstr(why(), "default_engine"));
	CHECK_INT(choose(NULL, "hardware", false), VM);
	host(GRADE_EMULATED, SPEED_EMULATED);
	fleet.config.default_engine = VM;
	CHECK_INT(choose(NULL, NULL, false), VM);
	CHECK_INT(choose(NULL, NULL, true), JAIL);
	host(GRADE_HARDWARE, SPEED_FULL);
	fleet.config.engines_forbidden = BIT(VM);
	CHECK_INT(choose(NULL, NULL, false), JAIL);
	CHECK(strstr(why(), "forbids vms"));
}

TEST(what_is_missing_is_the_reason)
{
	host(GRADE_HARDWARE, SPEED_FULL);
	fleet.probe.probe.engines[1].isolation = (struct isolation){0};
	(void)err_set(&fleet.probe.probe.engines[1].err, ERR_UNSUPPORTED, 0, "there is no QEMU");
	CHECK_INT(choose(NULL, NULL, false), JAIL);
	CHECK_STR(why(), "there is no QEMU");
}
