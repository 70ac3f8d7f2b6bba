// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Webhooks: entries of the event log are sent to a URL as they come. A hook has a position in the
 * log and a URL. Matching entries of its project are sent one after the other, in the log's order,
 * each until the receiver answers 2xx. So the entries of one sandbox arrive in order, each at least
 * once, with its number (webhook-id: HOOK.SEQ; in a cluster HOOK.NODE.SEQ, where each node sends
 * the entries of its own log).
 *
 *	idle --> dialling --> sending --> idle        (2xx: the place moves on, and is written down)
 *	              +----------+--> waiting --> dialling …
 *
 * A failed delivery is tried again after one second, then twice as long each time, up to ten
 * minutes. An entry that was not accepted for a day is skipped and counted.
 *
 * What is sent is signed: with a secret of the hook's own, which its row has sealed, or with one
 * that the project keeps by name. While it cannot be opened, the hook waits, and skips nothing.
 */
#include "event/event.h"
#include "hook/sign.h"
#include "net/match/address.h"
#include "outgoing/outgoing_call.h"
#include "secret/secret.h"

struct hooks;
struct hook;

#define HOOKS_MAX_OF_PROJECT 16
#define HOOKS_MAX            256 /* of all, but for their shares */
#define HOOKS_SHARE          2   /* that a project may have whatever the others have */

struct hook_timing {
	uint64_t first_us, most_us; /* between two attempts */
	uint64_t give_up_us;
};

struct hooks_config {
	struct outgoing outgoing;
	struct store *store; /* to be closed after the hooks */
	struct event_log *events;
	const struct secrets *secrets; /* to be closed after the hooks; NULL: nothing is sealed */
	const struct cidr *allowed;
	size_t n_allowed;                 /* that are not public, and may be sent to all the same */
	const struct hook_timing *timing; /* NULL = the usual */
};
must_check int hooks_open(const struct hooks_config *config, struct hooks **ret, struct err *err);
void hooks_close(struct hooks *hooks); /* NULL is fine */

struct hook_wish {
	const char *url;
	const char *types;  /* as event_types_parse() */
	const char *secret; /* "secret://NAME" */
};
/* Begins behind the newest entry. Types NULL: all. Secret NULL: one of its own is made, and shown
 * this once; else it is the reference. */
must_check int hooks_add(struct hooks *hooks, const char *project_id, const struct hook_wish *wish,
                         char secret[HOOK_SECRET_SIZE], const struct hook **ret, struct err *err);
/* NULL keeps the old value; types "" means all. The new url and secret hold for all entries that
 * are not sent yet. The new types hold for entries from now on, and for the one that is being
 * sent. */
must_check int hooks_change(struct hooks *hooks, const char *project_id, const char *id,
                            const struct hook_wish *wish, const struct hook **ret, struct err *err);
must_check int hooks_remove(struct hooks *hooks, const char *project_id, const char *id,
                            struct err *err); /* NOT_FOUND for another project's */
/* A secret by name has another value, or is gone: those that sign with it try again. */
void hooks_on_secret(struct hooks *hooks, const char *project_id, const char *name);
size_t hooks_count_locked(const struct hooks *hooks); /* of all projects: whose own secret is */
size_t hooks_count_users(const struct hooks *hooks, const char *project_id, const char *name);
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
