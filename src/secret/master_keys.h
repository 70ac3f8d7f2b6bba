// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The keys under which the keys of all secrets are sealed. They are in a file that no backup has:
 * each line is one, as 64 hexadecimal digits; empty lines and lines that begin with '#' are left
 * out. The first key seals. The others only open what was sealed under them, and at its start the
 * daemon seals that anew under the first (secret.h). So a key is changed like this: put a new line
 * on top, start the daemon anew, remove the old line.
 */
#include "base/auto.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define MASTER_KEY_SIZE    32
#define MASTER_KEYS_MAX    16
#define MASTER_KEY_ID_SIZE 17 /* 16 hexadecimal digits */

struct master_keys {
	uint8_t of[MASTER_KEYS_MAX][MASTER_KEY_SIZE];
	char ids[MASTER_KEYS_MAX][MASTER_KEY_ID_SIZE];
	size_t n;
};

/* Reads the file. If there is none and is_made is set, one with a new key is made. */
must_check int master_keys_read(const char *path, bool is_made, struct master_keys *ret,
                                struct err *err);
/* The same from text, which is overwritten. file names it in errors. */
must_check int master_keys_parse(char *text, const char *file, struct master_keys *ret,
                                 struct err *err);
/* One that is in no file. */
void master_keys_of_one(const uint8_t key[MASTER_KEY_SIZE], struct master_keys *ret);
const uint8_t *master_keys_find(const struct master_keys *keys, const char *id); /* or NULL */
void master_keys_done(struct master_keys *keys); /* overwrites them; twice is fine */
