// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Webhooks that all nodes of a cluster have. Each node sends the entries of its own log, so every
 * entry is sent once. A hook begins at the same time on all of them: with the first entry that was
 * written after it was made, also on a node that hears of it later.
 *
 * What goes to the others is a content, JSON in plain text, which the caller seals
 * (node/sealed_records.h) and wipes. What comes is a stranger's text, checked like a client's.
 */
#include "base/id.h"
#include "hook/hook.h"

/* The number of this node in its cluster. */
void hooks_set_node(struct hooks *hooks, uint32_t node);
/* Checks like hooks_add(), and changes nothing. *ret is the content, for sealed_text_wipe(). */
must_check int hooks_draft(const struct hooks *hooks, const char *project_id,
                           const struct hook_wish *wish, char id[ID_SIZE],
                           char secret[HOOK_SECRET_SIZE], char **ret, struct err *err);
/* The same like hooks_change(). */
must_check int hooks_draft_change(struct hooks *hooks, const char *project_id, const char *id,
                                  const struct hook_wish *wish, char **ret, struct err *err);
struct hook_arrival {
	const char *id, *project_id;
	uint64_t changed_us;
	const char *content; /* NULL: it was removed */
};
must_check int hooks_take(struct hooks *hooks, const struct hook_arrival *arrival, struct err *err);
/* The content of one that is here, for sealed_text_wipe(); NULL: there is none, or it is locked. */
char *hooks_describe(struct hooks *hooks, const char *project_id, const char *id);
/* Those of all projects, without their contents. */
void hooks_each_of_all(const struct hooks *hooks,
                       void (*fn)(const struct hook_arrival *one, void *arg), void *arg);
