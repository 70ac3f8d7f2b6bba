// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Readers of values that fields share. Each but the last three is a compose_take_fn: what it reads
 * goes into the object under the field's own name.
 */
#include "cli/compose/compose_read.h"

#define DECLARE_TAKE(name)                                                                         \
	must_check int name(struct compose_reader *r, const struct yaml_value *v, json_t *to,      \
	                    struct err *err)

DECLARE_TAKE(take_text);
DECLARE_TAKE(take_nothing); /* it means nothing here, and nothing is weaker without it */
DECLARE_TAKE(take_false);   /* which is what a sandbox has anyway; true is refused */
DECLARE_TAKE(take_true);
DECLARE_TAKE(take_one); /* the number */
DECLARE_TAKE(take_texts);
DECLARE_TAKE(take_words);
DECLARE_TAKE(take_pairs);
DECLARE_TAKE(take_time); /* as NAME_ms */

/* compose_mounts.c, compose_networks.c */
DECLARE_TAKE(take_volumes);
DECLARE_TAKE(take_tmpfs);
DECLARE_TAKE(take_networks);
DECLARE_TAKE(take_network_mode);

/* Each item of a list, by take_item, into a list of that name. */
must_check int take_each(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                         const char *name, compose_take_fn take_item, struct err *err);
/* A text that is one of `words` (NULL-terminated), for free(); else the error is the text and what
 * `should` says. */
must_check int compose_choice(struct compose_reader *r, const struct yaml_value *v,
                              const char *const *words, const char *should, char **ret,
                              struct err *err);
bool compose_is_among(const char *word, const char *const *words);
/* Refuses keys of a mapping that are not among the NULL-terminated list. */
must_check int compose_check_keys(struct compose_reader *r, const struct yaml_value *map,
                                  const char *const *known, struct err *err);
