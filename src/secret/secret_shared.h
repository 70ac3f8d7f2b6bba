// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Secrets that all nodes of a cluster have. What goes to the others is a content, JSON in plain
 * text, which the caller seals (node/sealed_records.h) and wipes. What comes is a stranger's text,
 * checked like a client's. Here each is sealed under this node's own master keys, like any other.
 *
 *	PUT --> secrets_draft() --> sealed, database --> secrets_take(), on each node
 */
#include "base/id.h"
#include "secret/secret.h"

struct secret_wish {
	const char *name, *value;
	size_t len;
	const json_t *hosts; /* as of secrets_set() */
};

/* By what the cluster knows it: it stands for project and name. */
void secret_record_id(const char *project_id, const char *name, char ret[ID_SIZE]);
/* Checks like secrets_set() and changes nothing. *ret is the content, for sealed_text_wipe();
 * *ret_version that of the value that there is, 0 for none. */
must_check int secrets_draft(const struct secrets *secrets, const char *project_id,
                             const struct secret_wish *wish, char **ret, uint64_t *ret_version,
                             struct err *err);
struct secret_arrival {
	const char *record_id, *project_id;
	uint64_t version, changed_us;
	const char *content; /* NULL: it was removed */
};
must_check int secrets_take(struct secrets *secrets, const struct secret_arrival *arrival,
                            struct err *err);
/* The content of one that is here, for sealed_text_wipe(); NULL: there is none, or it is locked. */
char *secrets_describe(const struct secrets *secrets, const char *project_id,
                       const char *record_id);
/* Those of all projects, without their contents. */
void secrets_each_of_all(const struct secrets *secrets,
                         void (*fn)(const struct secret_arrival *one, void *arg), void *arg);
/* The event of one that was set, or removed, on this node. */
void secrets_note_set(struct secrets *secrets, const char *project_id, const char *name);
void secrets_note_removed(struct secrets *secrets, const char *project_id, const char *name,
                          uint64_t version);
