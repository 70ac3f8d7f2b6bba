// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What `cloche` has this program do: a JSON object on stdin, so that no secret stands in an
 * argument. The answer is one on stdout: {"answer": …}, or {"error": {code, message, hint, field}}.
 */
#include "base/json/json.h"

struct order {
	const char *command;
	const char *data_dir, *run_dir, *postgres, *address; /* the daemon's settings */
	const char *objects, *objects_endpoint, *objects_region, *objects_credentials, *objects_ca;
	const char *owner; /* conninfo of who may make schemas */
	const char *name, *token;
	const char *node; /* that the command is about; NULL: this one */
	uint64_t lifetime_s, fence_after_ms, lost_after_ms;
	uint64_t certificate_s; /* how long what this node signs is good; 0: as usual */
	uint64_t objects_collect_s, objects_collect_most;
	uint64_t beat_ms, log_level, link_fd, control_fd; /* of the member */
	bool is_replacing;
};

must_check int order_parse(const json_t *all, struct order *ret, struct err *err);

typedef int (*order_fn)(const struct order *o, json_t **ret, struct err *err);
int order_init(const struct order *o, json_t **ret, struct err *err);
int order_migrate(const struct order *o, json_t **ret, struct err *err);
int order_invite(const struct order *o, json_t **ret, struct err *err);
int order_join(const struct order *o, json_t **ret, struct err *err);
int order_nodes(const struct order *o, json_t **ret, struct err *err);
int order_cordon(const struct order *o, json_t **ret, struct err *err);
int order_uncordon(const struct order *o, json_t **ret, struct err *err);
int order_remove(const struct order *o, json_t **ret, struct err *err);
int order_map(const struct order *o, json_t **ret, struct err *err);
int order_status(const struct order *o, json_t **ret, struct err *err);

/* The member, until its gateway or its launcher is gone: its exit code. */
int order_member(const struct order *o);
