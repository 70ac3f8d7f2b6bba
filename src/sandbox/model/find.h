// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Finding and listing. Both name the project, so that no check can be forgotten. */
#include "sandbox/model/sandbox.h"

/* Whether work that needs disk space may start. If not: ERR_HOST_DISK_FULL, or why there is no
 * disk. */
must_check int fleet_check_disk(const struct fleet *fleet, struct err *err);

struct sandbox *sandbox_find(struct fleet *fleet, const char *project_id,
                             const char *id_or_name); /* borrowed or NULL */

struct sandbox *sandbox_find_name(struct fleet *fleet, const char *project_id,
                                  const char *name); /* the same by name alone */

/* Finds a sandbox by a token that a caller shows instead of a key: the first of all projects for
 * which says_yes() is true; id NULL = any.
 */
struct sandbox *sandbox_find_shown(struct fleet *fleet, const char *id,
                                   bool (*says_yes)(const struct sandbox *s, void *arg), void *arg);

struct sandbox_filter {
	const char *project_id;
	const char *tag_name, *tag_value; /* NULL = any */
	const char *group;                /* NULL = any or none */
	const char *state;                /* NULL = all that live or are kept */
	const char *after_id; /* cursor: the last one of the page before, NULL = from the newest */
	uint64_t after_us; /* of fleet_list_ordered(): when that one was created; 0 = not known */
	size_t limit;
};
/* Newest first. Calls fn for each; returns the count. *ret_more tells whether another page
 * follows. */
size_t fleet_list(struct fleet *fleet, const struct sandbox_filter *filter,
                  void (*fn)(struct sandbox *s, void *arg), void *arg, bool *ret_more);
/* The same in an order that is that of all nodes of a cluster: by the time of creation, then by id.
 * after_id may be another node's. */
size_t fleet_list_ordered(struct fleet *fleet, const struct sandbox_filter *filter,
                          void (*fn)(struct sandbox *s, void *arg), void *arg, bool *ret_more);
uint64_t sandbox_created_us(const struct sandbox *s); /* wall clock */

const struct guest_limits *fleet_default_limits(const struct fleet *fleet); /* of a sandbox */
/* The isolation of the next guest of that engine; its engine is 0 if this host cannot run it. */
const struct isolation *fleet_isolation(const struct fleet *fleet, uint32_t engine);
bool fleet_forbids(const struct fleet *fleet, uint32_t engine); /* to clients, by its settings */
/* Bytes of execs' output on disk; project_id NULL: of all. */
uint64_t fleet_output_kept(const struct fleet *fleet, const char *project_id);
/* Tells a reading of history what each running sandbox uses. */
void fleet_feed_history(struct fleet *fleet);
/* Starts readings of a project's sandboxes that were not read for a moment, so that the next look
 * is fresh. */
void fleet_freshen(struct fleet *fleet, const char *project_id);
