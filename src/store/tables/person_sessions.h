// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Sessions of people, by the hash of their token. */
#include "base/digest.h"
#include "store/store.h"

struct person_session_row {
	struct digest hash;
	const char *person_id, *project_id, *sid, *refresh; /* "" = none */
	uint32_t kind;
	uint64_t created_us, expires_us, until_us;
};

/* Insert or replace. */
must_check int store_put_person_session(struct store *st, const struct person_session_row *row,
                                        struct err *err);
must_check int store_delete_person_session(struct store *st, const struct digest *hash,
                                           struct err *err);
/* Oldest first; strings are borrowed for the call. */
must_check int store_each_person_session(struct store *st,
                                         void (*fn)(const struct person_session_row *row,
                                                    void *arg),
                                         void *arg, struct err *err);
