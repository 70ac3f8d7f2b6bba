// SPDX-License-Identifier: Apache-2.0
#include "broker/slots.h"
#include "test.h"

TEST(all_slots_of_a_range_are_given_before_one_comes_again)
{
	struct slots s = {0};
	uint32_t slot;

	slots_set_range(&s, 100, 3);
	for (uint32_t i = 0; i < 3; i++) {
		CHECK_INT(slots_take(&s, &slot), 0);
		CHECK_INT(slot, 100 + i);
		slots_give(&s, slot);
	}
	CHECK_INT(slots_take(&s, &slot), 0);
	CHECK_INT(slot, 100);
}

TEST(no_slot_of_another_daemon_is_given)
{
	struct slots s = {0};
	uint32_t slot;

	slots_set_range(&s, BROKER_SLOTS - 2, 0);
	CHECK_INT(slots_take(&s, &slot), 0);
	CHECK_INT(slot, BROKER_SLOTS - 2);
	CHECK_INT(slots_take(&s, &slot), 0);
	CHECK_INT(slot, BROKER_SLOTS - 1);
	CHECK_INT(slots_take(&s, &slot), -ENOSPC);
	slots_give(&s, BROKER_SLOTS - 2);
	CHECK_INT(slots_take(&s, &slot), 0);
	CHECK_INT(slot, BROKER_SLOTS - 2);
}

TEST(a_sandbox_of_an_earlier_range_keeps_its_slot)
{
	struct slots s = {0};
	uint32_t slot;

	slots_set_range(&s, 1000, 10);
	CHECK(slots_claim(&s, 5));
	CHECK(!slots_claim(&s, 5));
	CHECK(slots_claim(&s, 1000));
	CHECK(!slots_claim(&s, BROKER_SLOTS));
	CHECK_INT(slots_take(&s, &slot), 0);
	CHECK_INT(slot, 1001);
	slots_give(&s, 5);
	CHECK(slots_claim(&s, 5));
}
