// SPDX-License-Identifier: Apache-2.0
/*
 * Checks whether the kernel has enough for the possible number of sandboxes. What it counts for all
 * of them together is compared with the minimum of one (kernel_share.h), and a limit that is too
 * low is named as for sysctl.
 */
#include "daemon/probe/probe.h"
#include "engine/linux/kernel_share.h"

#include <inttypes.h>
#include <stdio.h>

#define ALL_FILES INT64_MAX /* what systemd sets: a sandbox's memory bounds them then */

/* What each sandbox needs, and how many. */
static const struct {
	const char *sysctl;
	uint64_t each;
} needs[] = {
	{"user.max_user_namespaces", 1},
	{"user.max_pid_namespaces", 1},
	{"user.max_mnt_namespaces", 1},
	{"user.max_net_namespaces", 2},
	{"user.max_ipc_namespaces", 1},
	{"user.max_uts_namespaces", 1},
	{"user.max_cgroup_namespaces", 1},
	{"kernel.pid_max", 32}, /* processes; 256 are a sandbox's most if nothing is said */
	{"kernel.threads-max", 32},
};

struct list {
	char *text;
	size_t at;
	size_t n;
};

static void name(struct list *l, const char *sysctl, uint64_t value)
{
	int n = snprintf(l->text + l->at, PROBE_DETAIL_SIZE - l->at, " %s=%" PRIu64, sysctl, value);

	if (n > 0)
		l->at = MIN(l->at + (size_t)n, (size_t)PROBE_DETAIL_SIZE - 1);
	l->n++;
}

bool probe_kernel_limits(uint32_t sandboxes, char *detail)
{
	struct list l = {.text = detail};

	l.at = (size_t)snprintf(detail, PROBE_DETAIL_SIZE,
	                        "too low for %u sandboxes; enough would be", sandboxes);
	for (unsigned i = 0; i < SHARE_COUNT; i++) {
		const struct kernel_share_row *row = &kernel_share_rows[i];
		const uint64_t wanted = row->least * sandboxes;

		if (kernel_share_there(i) < wanted)
			name(&l, row->sysctl,
			     i == SHARE_OPEN_FILES
			             ? (uint64_t)ALL_FILES
			             : wanted + (row->reserve ? kernel_sysctl(row->reserve) : 0));
	}
	for (size_t i = 0; i < ARRAY_SIZE(needs); i++)
		if (kernel_sysctl(needs[i].sysctl) < needs[i].each * sandboxes)
			name(&l, needs[i].sysctl, 2 * needs[i].each * sandboxes);
	if (l.n == 0)
		(void)snprintf(detail, PROBE_DETAIL_SIZE, "enough for %u sandboxes", sandboxes);
	return l.n == 0;
}
