// SPDX-License-Identifier: Apache-2.0
#include "history/figure.h"

#include "base/auto.h"

#include <assert.h>

#define KIBS 10

/* clang-format off */
static const struct history_figure of_sandbox[] = {
	[SANDBOX_CPU]         = {"cpu_milli",                   "milli-CPU", HISTORY_MEAN, 0},
	[SANDBOX_MEMORY]      = {"memory_bytes",                "bytes",     HISTORY_MAX,  KIBS},
	[SANDBOX_DISK]        = {"disk_bytes",                  "bytes",     HISTORY_MAX,  KIBS},
	[SANDBOX_NETWORK_IN]  = {"network_in_bytes_per_second", "bytes/s",   HISTORY_MEAN, 0},
	[SANDBOX_NETWORK_OUT] = {"network_out_bytes_per_second", "bytes/s",  HISTORY_MEAN, 0},
};

#define OF_PROJECT                                                                             \
	[PROJECT_CPU]         = {"cpu_milli",                   "milli-CPU", HISTORY_MEAN, 0},    \
	[PROJECT_MEMORY]      = {"memory_bytes",                "bytes",     HISTORY_MAX,  KIBS}, \
	[PROJECT_DISK]        = {"disk_bytes",                  "bytes",     HISTORY_MAX,  KIBS}, \
	[PROJECT_NETWORK_IN]  = {"network_in_bytes_per_second", "bytes/s",   HISTORY_MEAN, 0},    \
	[PROJECT_NETWORK_OUT] = {"network_out_bytes_per_second", "bytes/s",  HISTORY_MEAN, 0},    \
	[PROJECT_SANDBOXES]   = {"sandboxes",                   "count",     HISTORY_MAX,  0},    \
	[PROJECT_CREATES]     = {"creates",                     "count",     HISTORY_SUM,  0},    \
	[PROJECT_EXECS]       = {"execs",                       "count",     HISTORY_SUM,  0},    \
	[PROJECT_CALLS]       = {"calls",                       "count",     HISTORY_SUM,  0}

static const struct history_figure of_project[] = {OF_PROJECT};

static const struct history_figure of_host[] = {
	OF_PROJECT,
	[HOST_CPU]            = {"host_cpu_milli",              "milli-CPU", HISTORY_MEAN, 0},
	[HOST_MEMORY]         = {"host_memory_bytes",           "bytes",     HISTORY_MAX,  KIBS},
	[HOST_DISK_FREE]      = {"host_disk_free_bytes",        "bytes",     HISTORY_MIN,  KIBS},
	[HOST_LOAD]           = {"host_load_milli",             "milli",     HISTORY_MEAN, 0},
	[HOST_CREATES_FAILED] = {"creates_failed",              "count",     HISTORY_SUM,  0},
	[HOST_REFUSALS]       = {"refusals",                    "count",     HISTORY_SUM,  0},
};
/* clang-format on */

static const struct {
	const char *name;
	const struct history_figure *figures;
	size_t n;
} scopes[] = {
	[HISTORY_HOST] = {"host", of_host, ARRAY_SIZE(of_host)},
	[HISTORY_PROJECT] = {"project", of_project, ARRAY_SIZE(of_project)},
	[HISTORY_SANDBOX] = {"sandbox", of_sandbox, ARRAY_SIZE(of_sandbox)},
};
static_assert(ARRAY_SIZE(scopes) == HISTORY_SCOPE_COUNT, "a scope has no figures");
static_assert(ARRAY_SIZE(of_host) == HISTORY_FIGURES_MAX, "a figure has no name");

const struct history_figure *history_figures(enum history_scope scope, size_t *ret_n)
{
	*ret_n = scopes[scope].n;
	return scopes[scope].figures;
}

const char *history_scope_name(enum history_scope scope)
{
	return scopes[scope].name;
}

const char *history_way_name(enum history_way way)
{
	static const char *const names[] = {
		[HISTORY_MEAN] = "mean",
		[HISTORY_MAX] = "max",
		[HISTORY_MIN] = "min",
		[HISTORY_SUM] = "sum",
	};

	return names[way];
}
