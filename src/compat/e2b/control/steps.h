// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Turns the steps of an E2B build (RUN, COPY, ENV, WORKDIR, USER) into a recipe of ours. Each
 * becomes a script in the build's sandbox, STEPS_DIR/NUMBER, and the recipe's commands run those in
 * order. No I/O here.
 */
#include "base/json/json.h"

#define STEPS_DIR      "/tmp/.steps"
#define STEPS_USER     STEPS_DIR "/user" /* makes the user of the steps; no step itself */
#define STEPS_WHY      "/tmp/.why"       /* where a script that fails leaves why (guest/build) */
#define STEPS_MAX      256
#define STEPS_TEXT_MAX (64 * 1024) /* of all scripts together */

struct steps_start { /* settings of the base template; each may be NULL, as of an image */
	const char *user, *cwd;
	const json_t *env;
};
/* Adds to the recipe: files, run, parcels, checks, env, user, cwd, and in "e2b" titles, start and
 * ready. body: {steps, startCmd, readyCmd}. */
must_check int steps_read(const json_t *body, const struct steps_start *start, json_t *recipe,
                          struct err *err);
/* The number of the step whose script is named in a line, or 0. */
unsigned steps_find(const char *line, size_t len);
