// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a hook signs with, as its row has it: a secret of its own, sealed ("sealed:..."), or a
 * reference ("secret://NAME"). It is opened for the moment of signing. Rows of older versions have
 * it as it is; they are sealed when they are read.
 */
#include "base/id.h"
#include "secret/secret.h"

struct hook_secret {
	const struct secrets *secrets; /* NULL: it is kept as it is */
	const char *project_id, *hook_id;
	const char *text; /* of the row */
};

/* As the row is to have it, for free(): the plain text sealed, or what is sealed under an older key
 * sealed anew. NULL: it is so already, or cannot be changed. */
char *hook_secret_seal(const struct hook_secret *s);
/* *ret is for sealed_text_wipe(). */
must_check int hook_secret_open(const struct hook_secret *s, char **ret, struct err *err);
bool hook_secret_names(const char *text,
                       const char *name); /* whether it refers to it; NULL: to any */
/* Whether a client's word is a reference to a secret that can sign, and may for this URL. */
must_check int hook_secret_check(const struct hook_secret *s, const char *url, struct err *err);
