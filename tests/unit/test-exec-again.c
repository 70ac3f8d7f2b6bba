// SPDX-License-Identifier: Apache-2.0
/* Execs while the gateway is away, and after it came back. */
#include "exec-rig.h"

#include <fcntl.h>
#include <sys/stat.h>

TEST(output_is_byte_exact_over_restarts_of_the_gateway)
{
	struct exec *e;
	char id[64], wanted[32 * 1024];
	size_t len = 0;

	box_start();
	e = rig_exec(&rig, box, "x", true);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	fake_started(agent, box_channel());
	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < 40; i++) {
			char line[64];
			int n = snprintf(line, sizeof(line), "round %d line %d of output\n", round,
			                 i);

			memcpy(wanted + len, line, (size_t)n);
			len += (size_t)n;
			box_say(line); /* some of it while the gateway is away */
			if (i == 20)
				rig_go_away(&rig);
		}
		rig_come_back(&rig);
		box = sandbox_find(rig.fleet, "prj_test", "box");
		e = exec_find(box, id);
		CHECK(e != NULL);
		UNTIL(&rig.broker, spool_bytes(exec_spool(e), SPOOL_STDOUT) == len);
		CHECK_INT(exec_state(e), EXEC_RUNNING);
	}
	wanted[len] = '\0';
	box_check_output(e, SPOOL_STDOUT, wanted);
	UNTIL(&rig.broker, exec_write_stdin(e, "x", 1, NULL) == 1); /* stdin goes on too */
	fake_exit(agent, box_channel(), EXIT_CODE, 7);
	fake_closed(agent, box_channel());
	UNTIL(&rig.broker, box_channel()->is_forgotten);
	box_restart();
	e = exec_find(box, id);
	CHECK(strstr(rig_exec_json(e), "\"exit_code\":7") != NULL);
	box_check_output(e, SPOOL_STDOUT, wanted);
	rig_stop(&rig);
}

TEST(an_exec_that_ends_while_the_gateway_is_away_is_not_missed)
{
	struct exec *e;
	char id[64];

	box_start();
	e = rig_exec(&rig, box, "x", false);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	rig_go_away(&rig);
	fake_started(agent, box_channel());
	box_say("done\n");
	fake_exit(agent, box_channel(), EXIT_CODE, 5);
	fake_closed(agent, box_channel());
	rig_come_back(&rig);
	box = sandbox_find(rig.fleet, "prj_test", "box");
	e = exec_find(box, id);
	UNTIL(&rig.broker, exec_is_over(e) && box_channel()->is_forgotten);
	CHECK(strstr(rig_exec_json(e), "\"exit_code\":5") != NULL);
	box_check_output(e, SPOOL_STDOUT, "done\n");
	rig_stop(&rig);
}

TEST(output_of_an_exec_that_ended_before_a_restart_goes_with_it)
{
	struct exec *e;
	char id[64];

	box_start();
	e = rig_exec(&rig, box, "x", false);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	fake_started(agent, box_channel());
	box_say("done\n");
	fake_exit(agent, box_channel(), EXIT_CODE, 0);
	fake_closed(agent, box_channel());
	UNTIL(&rig.broker, exec_is_over(e) && box_channel()->is_forgotten);
	CHECK_INT(rig_spools(&rig), 1);
	rig_go_away(&rig);
	rig_come_back(&rig);
	box = sandbox_find(rig.fleet, "prj_test", "box");
	exec_remove(exec_find(box, id));
	CHECK_INT(rig_spools(&rig), 0);
	rig_stop(&rig);
}

TEST(output_that_the_host_lost_is_a_gap_after_a_restart)
{
	struct exec *e;
	char id[64];

	box_start();
	e = rig_exec(&rig, box, "x", false);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	fake_started(agent, box_channel());
	box_say("hello world");
	UNTIL(&rig.broker, spool_last_seq(exec_spool(e)) == 1);
	rig_go_away(&rig);
	{
		auto_free char *path = xasprintf("%s/%s", rig.dir, id);

		CHECK_INT(unlink(path), 0);
	}
	box_channel()->acked = 5; /* the agent has dropped these */
	rig_come_back(&rig);
	box = sandbox_find(rig.fleet, "prj_test", "box");
	e = exec_find(box, id);
	UNTIL(&rig.broker, spool_bytes(exec_spool(e), SPOOL_STDOUT) == 11);
	box_check_output(e, SPOOL_STDOUT, "[gap 5] world");
	rig_stop(&rig);
}

TEST(an_exec_that_the_agent_does_not_know_any_more_is_closed)
{
	struct exec *e;
	char id[64];

	box_start();
	e = rig_exec(&rig, box, "x", false);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	fake_started(agent, box_channel());
	UNTIL(&rig.broker, exec_state(e) == EXEC_RUNNING);
	box_channel()->is_forgotten = true;
	box_restart();
	e = exec_find(box, id);
	UNTIL(&rig.broker, exec_is_over(e));
	rig_stop(&rig);
}

TEST(a_channel_that_no_record_knows_is_forgotten_at_the_agent)
{
	struct exec *e;

	box_start();
	e = rig_exec(&rig, box, "x", false);
	CHECK_INT(store_delete_execs(rig.store, &(const char *){exec_id(e)}, 1, NULL), 0);
	box_restart();
	UNTIL(&rig.broker, box_channel()->is_forgotten);
	rig_stop(&rig);
}

TEST(channel_numbers_are_never_used_twice)
{
	uint32_t before;

	box_start();
	exec_remove(rig_exec(&rig, box, "x", false));
	exec_remove(rig_exec(&rig, box, "x", false));
	before = box_channel()->number;
	box_restart();
	(void)rig_exec(&rig, box, "x", false);
	CHECK(box_channel()->number > before);
	rig_stop(&rig);
}
