// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What is kept of the host, of a project and of a sandbox. The number of a figure is its place in
 * the rows of the store: new ones come last. A piece of an older program has fewer.
 */
#include <stddef.h>
#include <stdint.h>

enum history_scope { HISTORY_HOST, HISTORY_PROJECT, HISTORY_SANDBOX, HISTORY_SCOPE_COUNT };

/* How many readings become one. */
enum history_way { HISTORY_MEAN, HISTORY_MAX, HISTORY_MIN, HISTORY_SUM };

enum sandbox_figure {
	SANDBOX_CPU,
	SANDBOX_MEMORY,
	SANDBOX_DISK,
	SANDBOX_NETWORK_IN,
	SANDBOX_NETWORK_OUT,
	SANDBOX_FIGURES
};

enum project_figure {
	PROJECT_CPU,
	PROJECT_MEMORY,
	PROJECT_DISK,
	PROJECT_NETWORK_IN,
	PROJECT_NETWORK_OUT,
	PROJECT_SANDBOXES,
	PROJECT_CREATES,
	PROJECT_EXECS,
	PROJECT_CALLS,
	PROJECT_FIGURES
};

/* The first are those of a project, of all projects together. */
enum host_figure {
	HOST_CPU = PROJECT_FIGURES,
	HOST_MEMORY,
	HOST_DISK_FREE,
	HOST_LOAD,
	HOST_CREATES_FAILED,
	HOST_REFUSALS,
	HOST_FIGURES
};

#define HISTORY_FIGURES_MAX HOST_FIGURES

struct history_figure {
	const char *name, *unit;
	enum history_way way;
	unsigned shift; /* it is kept in units of 1 << shift */
};

const struct history_figure *history_figures(enum history_scope scope, size_t *ret_n);
const char *history_scope_name(enum history_scope scope);
const char *history_way_name(enum history_way way);
