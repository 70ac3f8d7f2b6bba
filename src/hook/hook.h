// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Webhooks: entries of the event log are sent to a URL as they come. A hook has a position in the
 * log and a URL. Matching entries of its project are sent one after the other, in the log's order,
 * each until the receiver answers 2xx. So the entries of one sandbox arrive in order, each at least
 * once, with its number (webhook-id: HOOK.SEQ).
 *
 *	idle --> dialling --> sending --> idle        (2xx: the place moves on, and is written down)
 *	              +----------+--> waiting --> dialling …
 *
 * A failed delivery is tried again after one second, then twice as long each time, up to ten
 * minutes. An entry that was not accepted for a day is skipped and counted.
 */
#include "event/event.h"
#include "hook/dialer.h"
#include "net/match/address.h"

struct hooks;
struct hook;
struct tls_context;

#define HOOKS_MAX_OF_PROJECT 16
#define HOOKS_MAX            256 /* of all, but for their shares */
#define HOOKS_SHARE          2   /* that a project may have whatever the others have */

struct hook_timing {
	uint64_t first_us, most_us; /* between two attempts */
	uint64_t give_up_us;
};

struct hooks_config {
	struct loop *loop;
	struct store *store; /* to be closed after the hooks */
	struct event_log *events;
	struct dialer *dialer;
	struct tls_context *tls; /* NULL: no https */
	const struct cidr *allowed;
	size_t n_allowed;                 /* that are not public, and may be sent to all the same */
	const struct hook_timing *timing; /* NULL = the usual */
};
must_check int hooks_open(const struct hooks_config *config, struct hooks **ret, struct err *err);
void hooks_close(struct hooks *hooks); /* NULL is fine */

/* Begins behind the newest entry. *secret is shown this once. types: as event_types_parse(), or
 * NULL for all. */
must_check int hooks_add(struct hooks *hooks, const char *project_id, const char *url,
                         const char *types, char secret[64], const struct hook **ret,
                         struct err *err);
/* NULL keeps the old value; types "" means all. The new url holds for all entries that are not sent
 * yet. The new types hold for entries from now on, and for the one that is being sent. */
must_check int hooks_change(struct hooks *hooks, const char *project_id, const char *id,
                            const char *url, const char *types, const struct hook **ret,
                            struct err *err);
must_check int hooks_remove(struct hooks *hooks, const char *project_id, const char *id,
                            struct err *err); /* NOT_FOUND for another project's */
/* All of a project's, whose rows are gone already. */
void hooks_forget(struct hooks *hooks, const char *project_id);
const struct hook *hooks_find(struct hooks *hooks, const char *project_id,
                              const char *id); /* or NULL */
void hooks_each(struct hooks *hooks, const char *project_id,
                void (*fn)(const struct hook *h, void *arg), void *arg);
struct hook_counts {
	uint64_t hooks, failing;             /* now */
	uint64_t delivered, failed, dropped; /* since the start */
};
void hooks_count(const struct hooks *hooks, struct hook_counts *ret); /* of all projects */
void hook_to_json(const struct hook *h, struct json_writer *w, const char *name); /* no secret */
