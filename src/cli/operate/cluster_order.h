// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the commands of a cluster have done by cloche-cluster, the only program that speaks with
 * PostgreSQL: it gets an order as JSON on its stdin, and answers on its stdout.
 */
#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>

struct cluster_opts {
	const char *config, *owner, *name, *address;
	const char *node; /* that the command is about; NULL: this one */
	uint64_t lifetime_ms, fence_after_ms, lost_after_ms;
	bool is_replacing;
};

/* Adds the settings and what the options say; order is the caller's. *ret is for json_decref(). */
must_check int cluster_order(const struct cluster_opts *o, const char *command, const char *token,
                             json_t **ret, struct err *err);
