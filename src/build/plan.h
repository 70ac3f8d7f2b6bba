// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Describes a step: where it runs, as which user, with which arguments and variables, what it may
 * reach, and the key of its result. No I/O here.
 *
 * A source is a line "OPTIONS URI SUITE COMPONENT…" as the daemon has read it from the host's apt
 * (OPTIONS "[]" or apt's own, such as "[trusted=yes]"). Sources of the host's suite are used for
 * other suites too: their name replaces the host's.
 */
#include "build/build_private.h"

#define PLAN_KEY_SIZE 65

const char *step_name(enum step step);
/* Whether this recipe has something to do in this step. */
bool plan_has(const struct build *b, enum step step);
bool plan_is_sealed(enum step step);                      /* its files become an image */
bool plan_is_last(const struct build *b, enum step step); /* of those that are */
bool plan_is_on_host(const struct build *b, enum step step);
/* The index of the step among those that the recipe has, and their number. */
void plan_place(const struct build *b, unsigned *ret_index, unsigned *ret_count);

/* The archives of the recipe's suite, a line each; the caller frees. "" if there are none. */
char *plan_sources(const struct builds_config *c, const char *suite);
void plan_key(const struct build *b, enum step step, char key[PLAN_KEY_SIZE]);
json_t *plan_argv(const struct build *b, enum step step); /* the caller owns these */
json_t *plan_env(const struct build *b, enum step step);
json_t *plan_network(const struct build *b, enum step step); /* a policy */
json_t *plan_manifest(const struct build *b);                /* of the template */
const char *plan_user(const struct build *b, enum step step);
