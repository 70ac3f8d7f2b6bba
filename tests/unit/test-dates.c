// SPDX-License-Identifier: Apache-2.0
/* Changes of the date: the wall clock of this program is set forward and back by the tests. */
#include "sandbox-rig.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DAY_S 86400

static struct rig rig;
static time_t jump_s;

/* Takes the place of libc's in this program, and with that in base/clock.c. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	long r = syscall(SYS_clock_gettime, clock, ts);

	if (r == 0 && clock == CLOCK_REALTIME)
		ts->tv_sec += jump_s;
	return (int)r;
}

static void turn_some(void)
{
	for (int i = 0; i < 20; i++)
		fake_turn(&rig.broker);
}

TEST(a_change_of_the_date_moves_no_timeout)
{
	struct sandbox_spec spec = {
		.name = "dated", .timeout_ms = 3600000, .idle_timeout_ms = 3600000};
	struct outcome o = {0};
	struct sandbox *s;

	rig_start(&rig);
	CHECK_INT(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, &o, NULL), 0);
	UNTIL(&rig.broker, o.calls > 0);
	for (int i = 0; i < 2; i++) {
		jump_s = i == 0 ? DAY_S : -DAY_S;
		turn_some();
		CHECK_INT(sandbox_state(o.s), SANDBOX_RUNNING);
	}
	jump_s = DAY_S;
	rig_go_away(&rig);
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", "dated");
	turn_some();
	CHECK_INT(sandbox_state(s), SANDBOX_RUNNING);
	jump_s = 0;
	rig_stop(&rig);
}

TEST(a_change_of_the_date_forgets_nothing_that_ended)
{
	struct sandbox *s;
	char id[64];

	rig_start(&rig);
	s = rig_create(&rig, NULL);
	(void)snprintf(id, sizeof(id), "%s", sandbox_id(s));
	CHECK_INT(sandbox_stop(s, NULL, NULL, NULL), 0);
	UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_STOPPED);
	jump_s = DAY_S;
	turn_some();
	rig_delete(&rig, rig_create(&rig, NULL)); /* makes it look */
	turn_some();
	CHECK(sandbox_find(rig.fleet, "prj_test", id) != NULL);
	jump_s = 0;
	rig_stop(&rig);
}
