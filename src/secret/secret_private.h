// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the files of secrets share: secret.c has them, secret_shared.c those of a cluster. */
#include "base/id.h"
#include "net/policy/secret_reference.h"
#include "secret/secret.h"

struct secret {
	struct list link; /* in order of names */
	char id[ID_SIZE], project_id[ID_SIZE];
	char name[SECRET_NAME_SIZE];
	uint64_t version, created_us, changed_us;
	struct envelope envelope;
	char *hosts; /* as in its row */
};

struct secrets {
	struct secrets_config config;
	struct list all;
	size_t n_all;
	void (*changed)(const char *project_id, const char *name, void *arg);
	void *changed_arg;
};

struct secret *secret_find(const struct secrets *secrets, const char *project_id,
                           const char *name); /* or NULL */
struct secret *secret_make(const char *project_id, const char *name);
void secret_insert(struct secrets *secrets, struct secret *s);
void secret_free(struct secret *s);
void secret_let_go(struct secrets *secrets, struct secret *s); /* from memory */
/* The patterns as a row has them, for free(). */
must_check int secret_read_hosts(const json_t *hosts, char **ret, struct err *err);
must_check int secret_check(const char *name, size_t len, struct err *err);
must_check int secret_check_room(const struct secrets *secrets, const char *project_id, size_t most,
                                 struct err *err);
/* Seals the value as this version of s, and saves it. s is unchanged if that fails. */
struct secret_state {
	const char *id; /* NULL: as before */
	const char *value, *hosts;
	size_t len;
	uint64_t version, created_us, changed_us;
};
must_check int secret_put_state(struct secrets *secrets, struct secret *s,
                                const struct secret_state *state, struct err *err);
int secret_refuse_unknown(const char *name, struct err *err);
void secret_note_event(struct secrets *secrets, const struct secret *s, enum event_type type);
void secret_note_changed(struct secrets *secrets, const struct secret *s);
