// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A value that is sealed under a key of its own, and that key sealed under a master key. So a new
 * master key costs one small sealing for each secret, whatever the values' sizes are.
 *
 * Both are AES-256-GCM: base64 of 12 random bytes, the sealed bytes and a tag of 16. The label
 * (whose value it is) is authenticated with both, so a row that was moved to another name, project
 * or version does not open.
 */
#include "base/auto.h"
#include "base/err.h"
#include "secret/master_keys.h"

#define ENVELOPE_VALUE_MAX 8192          /* of a secret */
#define ENVELOPE_BYTES_MAX (1024 * 1024) /* of anything */

struct envelope {
	char key_id[MASTER_KEY_ID_SIZE]; /* of the master key */
	char *wrapped, *sealed;
};

void envelope_done(struct envelope *e); /* twice is fine */

/* Under the first key. len is at most ENVELOPE_BYTES_MAX. */
must_check int envelope_seal(const struct master_keys *keys, const char *label, const void *value,
                             size_t len, struct envelope *ret);
/* *ret gets a NUL behind the value; the caller overwrites and frees it. Returns the length, -ENOKEY
 * if its master key is not there, -EBADMSG if it was altered. */
must_check ssize_t envelope_open(const struct master_keys *keys, const char *label,
                                 const struct envelope *e, char **ret);
/* Seals its key under the first master key. 1: it was so already. Errors as above. */
must_check int envelope_rewrap(const struct master_keys *keys, const char *label,
                               struct envelope *e);
