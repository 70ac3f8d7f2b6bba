// SPDX-License-Identifier: Apache-2.0
/* The words for states, causes, engines and actions in rows, events and replies. */
#include "sandbox/model/sandbox_private.h"

#include <assert.h>

static const char *const causes[] = {
	[END_NONE] = "none",
	[END_EXITED] = "exited",
	[END_OOM] = "oom",
	[END_PIDS] = "pids",
	[END_DISK_FULL] = "disk_full",
	[END_TIMEOUT] = "timeout",
	[END_IDLE] = "idle",
	[END_KILLED] = "killed",
	[END_DELETED] = "deleted",
	[END_GUEST_CRASH] = "guest_crash",
	[END_HOST_RESTART] = "host_restart",
	[END_POLICY] = "policy",
	[END_STOPPED] = "stopped",
	[END_NODE_LOST] = "node_lost",
};
static_assert(ARRAY_SIZE(causes) == END_CAUSE_COUNT, "a cause has no name");

static const char *const grades[] = {
	[0] = "none",
	[GRADE_PROCESS] = "process",
	[GRADE_EMULATED] = "emulated",
	[GRADE_HARDWARE] = "hardware",
};

static const char *const actions[] = {
	[ON_TIMEOUT_DELETE] = "delete",
	[ON_TIMEOUT_STOP] = "stop",
	[ON_TIMEOUT_PAUSE] = "pause",
};
static_assert(ARRAY_SIZE(actions) == ON_TIMEOUT_COUNT, "an action has no name");

const char *end_cause_name(enum end_cause cause)
{
	return causes[cause];
}

const char *grade_name(uint32_t grade)
{
	return grade < ARRAY_SIZE(grades) ? grades[grade] : grades[0];
}

const char *on_node_loss_name(enum on_node_loss word)
{
	return word == ON_NODE_LOSS_RESTORE ? "restore" : "end";
}

const char *timeout_action_name(enum timeout_action action)
{
	return actions[action];
}
