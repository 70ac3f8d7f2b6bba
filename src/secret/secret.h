// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Secrets by name. A project keeps a value under a name once, and refers to it as `secret://NAME`
 * in policies, sources and environments. No reply, event or log tells a value again.
 *
 * A secret may have hosts: then it goes to those alone, whatever a policy says, and into no
 * environment. So whoever may make sandboxes cannot send it to a host of their own.
 *
 * Values are sealed in memory as they are in the store (envelope.h), and opened for the moment of
 * their use. At the start, those that another master key sealed are sealed anew under the first. If
 * the key of one is not there, it is locked: it stays, is listed as locked, and whoever uses it is
 * told so.
 */
#include "event/event.h"
#include "net/match/hostname.h"
#include "secret/sealed_text.h"
#include "store/store.h"

#include <errno.h>

#define SECRETS_MAX            4096 /* of all projects; a project has its share of it in any case */
#define SECRETS_SHARE          16
#define SECRETS_MAX_OF_PROJECT 256
#define SECRET_HOSTS_MAX       32

struct secrets;
struct secret;

struct secrets_config {
	struct store *store;      /* to be closed after the secrets */
	struct event_log *events; /* likewise; or NULL */
	const struct master_keys *keys;
};

must_check int secrets_open(const struct secrets_config *config, struct secrets **ret,
                            struct err *err);
void secrets_close(struct secrets *secrets); /* NULL is fine */

/* Called after a secret was set anew or removed, so that its users take the new value. */
void secrets_on_change(struct secrets *secrets,
                       void (*fn)(const char *project_id, const char *name, void *arg), void *arg);

/* Makes or replaces one. hosts: an array of patterns (net/match/hostname.h), empty for any host; or
 * NULL, as before. *ret_new: there was none. */
must_check int secrets_set(struct secrets *secrets, const char *project_id, const char *name,
                           const char *value, size_t len, const json_t *hosts,
                           const struct secret **ret, bool *ret_new, struct err *err);
must_check int secrets_remove(struct secrets *secrets, const char *project_id, const char *name,
                              struct err *err);
void secrets_forget(struct secrets *secrets, const char *project_id); /* whose rows are gone */
const struct secret *secrets_find(const struct secrets *secrets, const char *project_id,
                                  const char *name); /* or NULL */
void secrets_each(const struct secrets *secrets, const char *project_id,
                  void (*fn)(const struct secret *s, void *arg), void *arg); /* by name */
bool secret_is_bound(const struct secret *s);                                /* it has hosts */
/* Whether it may be sent to all that the pattern names. */
bool secret_may_go(const struct secret *s, const struct hostname_pattern *where);
bool secret_is_locked(const struct secrets *secrets, const struct secret *s);
size_t secrets_count_locked(const struct secrets *secrets); /* of all projects */
/* For what else is sealed (sealed_text.h). */
const struct master_keys *secrets_keys(const struct secrets *secrets);
/* Opens the value into ret, which has room for ENVELOPE_VALUE_MAX + 1 bytes and which the caller
 * overwrites. Returns its length. */
must_check ssize_t secrets_reveal(const struct secrets *secrets, const char *project_id,
                                  const char *name, char *ret, struct err *err);
/* The errnum of an err that says that there is no such secret here. */
#define SECRET_UNKNOWN ENODATA
struct secret_facts { /* strings are borrowed */
	const char *id, *name;
	uint64_t version; /* 1 for the first value */
	uint64_t created_us, changed_us;
};
void secret_look(const struct secret *s, struct secret_facts *ret);
void secret_to_json(const struct secrets *secrets, const struct secret *s, struct json_writer *w,
                    const char *name); /* without its value */
