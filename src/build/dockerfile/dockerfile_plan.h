// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Turns a Dockerfile into a recipe of ours. No I/O: what it starts from is told by a callback, and
 * what is in the context is known only in the build's sandboxes.
 *
 * A *part* is what is sealed and cached: some COPY, ADD and WORKDIR, up to and with the next RUN.
 * If one of those copies has changed, the RUN has to run again anyway, so they need no image of
 * their own. Each instruction of a part is a script in DOCKER_STEPS. The recipe has, besides the
 * fields that all recipes have (name, env, user, cwd, entrypoint), `cmd`, `config` (labels, ports,
 * volumes, …) and
 *
 *	dockerfile: {
 *	  stages: [{image | stage | tree, suite}],   what each starts from: an image, the result of
 *	                                             another stage, or nothing (FROM scratch)
 *	  parts:  [{stage, files, run, copies, carries, offline, caches}],
 *	  copies: [[pattern…]],                      of the context; a part names those it needs
 *	  target,                                    the stage that becomes the template
 *	}
 *
 * `carries` are directories or files of other stages and images: [{stage | image, path, line}].
 * `caches` are the cache mounts of its RUN: [{key, locked}], the key a hash of the mount's id.
 */
#include "base/digest.h"
#include "base/json/json.h"

#define DOCKER_DIR     "/opt/cloche/build" /* never part of an image */
#define DOCKER_STEPS   DOCKER_DIR "/steps"
#define DOCKER_CONTEXT DOCKER_DIR "/context"
#define DOCKER_FETCHED DOCKER_DIR "/fetched"
#define DOCKER_CARRIED "/opt/cloche/from" /* and the number of the carry in its part */
#define STAGES_MAX     64

struct docker_base { /* what FROM and COPY --from name */
	struct digest image;
	bool is_open;           /* the image is not known yet: name is its reference */
	const char *name;       /* of the template */
	const json_t *manifest; /* borrowed until the plan is made */
};

struct docker_request { /* borrowed for the call */
	const char *text;
	size_t len;
	const char *target;       /* a stage's name or number; NULL: the last one */
	const json_t *build_args; /* an object of strings, or NULL */
	const char *arch;         /* "amd64", "arm64" */
	must_check int (*find)(const char *reference, struct docker_base *ret, void *arg,
	                       struct err *err);
	void *arg;
};

/* Adds to the recipe. Errors name the line. If a stage that is needed starts from an open image, or
 * copies from one, `pulls` in the recipe has their references, and the plan cannot be run. */
must_check int docker_plan(const struct docker_request *request, json_t *recipe, struct err *err);
