// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Ids: a kind and 130 random bits in lower-case base32, such as "sb_k3v9…" (26 letters behind the
 * prefix). They cannot be guessed, and fit unescaped into paths, URLs, host names and SQL.
 */
#include "base/auto.h"

#include <stdbool.h>

#define ID_RANDOM_LEN 26
#define ID_SIZE       40 /* room for any id and its NUL */

void id_make(char id[ID_SIZE], const char *kind); /* kind: "sb", "ex", "key", … at most 8 letters */
/* The same for what stands in paths that any node of a cluster is asked for: begins with a tag of
 * this node (cluster/tag.h), once there are some. */
void id_make_tagged(char id[ID_SIZE], const char *kind);
/* The tags of this node, of 20 bits each; they hold for the whole process. */
#define ID_TAGS_MAX 16
void id_set_tags(const uint32_t *tags, size_t n);
bool id_has_own_tag(const char *id);                /* or there are no tags */
bool id_is_valid(const char *id, const char *kind); /* exactly what id_make() could have made */
int id_letter_bits(char letter); /* the five bits that it stands for; -1: no letter of an id */
char id_letter(unsigned bits);   /* the other way; only the lowest five bits count */
void random_bytes(void *data, size_t len); /* getrandom(); aborts if that fails */
