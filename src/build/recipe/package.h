// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The `packages` of a create: words such as "pip:pandas>=2", "npm:zod@3", "apt:jq", or a bare name,
 * whose kind depends on the language. They become arguments inside a build's sandbox, so each must
 * have the form of its kind (word.h) or is refused with its index. No I/O here.
 */
#include "base/json/json.h"

#define PACKAGES_MAX    64
#define PACKAGE_LEN_MAX 200 /* with its kind */

enum package_kind { PACKAGE_PIP, PACKAGE_NPM, PACKAGE_APT, PACKAGE_KIND_COUNT };

const char *package_kind_name(enum package_kind kind);
/* The language of its packages; NULL for none. */
const char *package_kind_language(enum package_kind kind);
/* The kind of a bare name: by the language of the call (or NULL), else by the template's languages
 * (an object, language to version; NULL: not known). */
enum package_kind package_kind_of(const char *language, const json_t *has);

/*
 * *ret: an array of words, each with its kind, in a canonical order and spelling, without
 * duplicates. The caller owns it.
 */
must_check int package_read(const json_t *list, enum package_kind bare, json_t **ret,
                            struct err *err);
/* Those of one kind, without it; the caller owns it. */
json_t *package_select(const json_t *words, enum package_kind kind);
