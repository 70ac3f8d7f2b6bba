// SPDX-License-Identifier: Apache-2.0
#include "event/event.h"

#include <assert.h>
#include <string.h>

static const char *const names[] = {
	[EVENT_DAEMON_STARTED] = "daemon.started",
	[EVENT_DAEMON_STOPPED] = "daemon.stopped",
	[EVENT_DAEMON_PART_REPLACED] = "daemon.part_replaced",
	[EVENT_DAEMON_PROBLEM_BEGAN] = "daemon.problem_began",
	[EVENT_DAEMON_PROBLEM_ENDED] = "daemon.problem_ended",
	[EVENT_CREATE_QUEUED] = "create.queued",
	[EVENT_POOL_RESERVED] = "pool.reserved",
	[EVENT_POOL_RELEASED] = "pool.released",
	[EVENT_SANDBOX_CREATED] = "sandbox.created",
	[EVENT_SANDBOX_RUNNING] = "sandbox.running",
	[EVENT_SANDBOX_ADOPTED] = "sandbox.adopted",
	[EVENT_SANDBOX_PAUSED] = "sandbox.paused",
	[EVENT_SANDBOX_RESUMED] = "sandbox.resumed",
	[EVENT_SANDBOX_STOPPING] = "sandbox.stopping",
	[EVENT_SANDBOX_STOPPED] = "sandbox.stopped",
	[EVENT_SANDBOX_ENDED] = "sandbox.ended",
	[EVENT_SANDBOX_ROLLED_BACK] = "sandbox.rolled_back",
	[EVENT_SANDBOX_RESTORED] = "sandbox.restored",
	[EVENT_SANDBOX_FENCED] = "sandbox.fenced",
	[EVENT_SANDBOX_UNFENCED] = "sandbox.unfenced",
	[EVENT_SANDBOX_CHANGED] = "sandbox.changed",
	[EVENT_EXEC_STARTED] = "exec.started",
	[EVENT_EXEC_EXITED] = "exec.exited",
	[EVENT_CONTEXT_CREATED] = "context.created",
	[EVENT_CONTEXT_ENDED] = "context.ended",
	[EVENT_POLICY_DECIDED] = "policy.decided",
	[EVENT_POLICY_LEARNT] = "policy.learnt",
	[EVENT_KEY_CREATED] = "key.created",
	[EVENT_KEY_REVOKED] = "key.revoked",
	[EVENT_KEY_REFUSED] = "key.refused",
	[EVENT_KEY_LOGGED_IN] = "key.logged_in",
	[EVENT_PERSON_LOGGED_IN] = "person.logged_in",
	[EVENT_PERSON_LOGGED_OUT] = "person.logged_out",
	[EVENT_PERSON_REFUSED] = "person.refused",
	[EVENT_PROJECT_CREATED] = "project.created",
	[EVENT_PROJECT_REMOVED] = "project.removed",
	[EVENT_BUILD_STARTED] = "build.started",
	[EVENT_BUILD_RETRIED] = "build.retried",
	[EVENT_BUILD_ENDED] = "build.ended",
	[EVENT_TEMPLATE_CREATED] = "template.created",
	[EVENT_TEMPLATE_REMOVED] = "template.removed",
	[EVENT_SNAPSHOT_CREATED] = "snapshot.created",
	[EVENT_SNAPSHOT_REMOVED] = "snapshot.removed",
	[EVENT_VOLUME_CREATED] = "volume.created",
	[EVENT_VOLUME_REMOVED] = "volume.removed",
	[EVENT_QUOTA_CHANGED] = "quota.changed",
	[EVENT_SECRET_SET] = "secret.set",
	[EVENT_SECRET_REMOVED] = "secret.removed",
	[EVENT_IDENTITY_ISSUED] = "identity.issued",
	[EVENT_IDENTITY_ROTATED] = "identity.rotated",
	[EVENT_NODE_LOST] = "node.lost",
	[EVENT_NODE_RETURNED] = "node.returned",
	[EVENT_CLUSTER_REWOUND] = "cluster.rewound",
	[EVENT_HOST_DISK] = "host.disk",
	[EVENT_SUPPRESSED] = "events.suppressed",
	[EVENT_NOT_SENT] = "events.not_sent",
	[EVENT_API_READ] = (EVENT_AUDIT_PREFIX "read"),
	[EVENT_API_WRITE] = (EVENT_AUDIT_PREFIX "write"),
};
static_assert(ARRAY_SIZE(names) == EVENT_TYPE_COUNT, "a type has no name");
static_assert(EVENT_TYPE_COUNT <= 64, "a set of types does not fit");

const char *event_type_name(enum event_type type)
{
	return names[type];
}

bool event_is_audit(const char *name)
{
	return strncmp(name, EVENT_AUDIT_PREFIX, strlen(EVENT_AUDIT_PREFIX)) == 0;
}

/* The whole name, or the word before its dot. */
static bool is_meant(const char *name, const char *word, size_t len)
{
	return strncmp(name, word, len) == 0 && (name[len] == '\0' || name[len] == '.');
}

int event_types_parse(const char *text, const char *field, uint64_t *ret, struct err *err)
{
	uint64_t set = 0;

	for (const char *p = text;; p++) {
		size_t len = strcspn(p, ",");
		uint64_t found = 0;

		for (unsigned i = 0; i < EVENT_TYPE_COUNT; i++)
			if (len > 0 && is_meant(names[i], p, len))
				found |= BIT64(i);
		if (found == 0)
			return err_field(err, field, "'%.*s' is not a type of event",
			                 (int)MIN(len, (size_t)40), p);
		set |= found;
		p += len;
		if (*p == '\0')
			break;
	}
	*ret = set;
	return 0;
}
