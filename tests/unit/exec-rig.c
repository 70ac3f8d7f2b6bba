// SPDX-License-Identifier: Apache-2.0
#include "exec-rig.h"

struct rig rig;
struct sandbox *box;
struct fake_agent *agent;

void box_start(void)
{
	rig_start(&rig);
	box = rig_create(&rig, "box");
	agent = fake_agent_only(&rig.broker);
}

void box_restart(void)
{
	rig_go_away(&rig);
	rig_come_back(&rig);
	box = sandbox_find(rig.fleet, "prj_test", "box");
	CHECK(box != NULL);
}

struct fake_channel *box_channel(void)
{
	return fake_channel_last(agent);
}

void box_say(const char *text)
{
	fake_output(agent, box_channel(), STREAM_STDOUT, text, strlen(text));
}

void box_check_output(struct exec *e, uint8_t kind, const char *wanted)
{
	auto_free char *got = rig_output(e, kind);

	CHECK_STR(got, wanted);
}
