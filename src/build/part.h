// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A build of a Dockerfile (build/dockerfile/dockerfile_plan.h): its parts, one after the other, and
 * what they start from. No I/O here.
 */
#include "build/build_private.h"

/* A path of another stage or image that a part copies from. */
struct part_carry {
	struct digest image;
	const char *path;      /* "" for all of it; borrowed */
	unsigned line;         /* of the Dockerfile */
	char name[DIGEST_HEX]; /* of the parcel for it, as a hash */
};

bool part_is_any(const struct build *b); /* it is a Dockerfile's */
size_t part_count(const struct build *b);
bool part_is_last(const struct build *b);
bool part_is_tree(const struct build *b); /* a root in the making, on the host's programs */
bool part_is_offline(const struct build *b);
bool part_is_unknown(const struct build *b); /* what it fetches may have changed: it runs anew */
bool part_has_copies(const struct build *b); /* any part */
/* Of the part: [{key, locked}] of its RUN's cache mounts; borrowed, or NULL. */
const json_t *part_caches(const struct build *b);

/* Before a part: its image and suite, if it is the first of its stage. */
void part_enter(struct build *b);
/* Behind it: keeps its image for other stages, and goes to the next; false behind the last, and
 * then the image is the template's. */
bool part_leave(struct build *b);
void part_restart(struct build *b); /* from the first one */

json_t *part_files(const struct build *b); /* of the part; borrowed */
/* The words of the step's exec behind the script, and its variables; the caller owns them. */
json_t *part_words(const struct build *b, enum step step);
void part_put_env(const struct build *b, enum step step, json_t *env);
/* What has to be unpacked before it runs: [[hash of a parcel, directory, with owners?]…]; the
 * caller owns it. */
json_t *part_fills(const struct build *b, enum step step);
bool part_carry(const struct build *b, size_t i, struct part_carry *ret); /* false: no more */
