// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the stages of a Dockerfile start from. FROM and `--from` name a template, or an image of a
 * registry, which is pulled before the first step:
 *
 *	request --> a plan that leaves those images open, and `pulls`, `source` in the recipe
 *	build begins --> pulled one after the other --> the plan is made again, with what they are
 *
 * A build of another wire does the same with its one image; its recipe's `source` has `wire` then,
 * and that wire makes the plan again (plan_foreign()).
 *
 * The first plan is there to refuse what is wrong at once; what the images themselves say (their
 * variables, user, ONBUILD) is known to the second one only. A pulled image is found by later
 * builds and creates, as those of creates are (build/transfer/image_find.h).
 */
#include "build/build.h"

struct bases_wish { /* borrowed for the call */
	const char *project_id;
	const char *text, *name;  /* of the Dockerfile, and of the template to make */
	const char *files;        /* the parcel of its context, or NULL */
	const char *target;       /* or NULL */
	const json_t *build_args; /* or NULL */
};

/* The recipe; the caller owns it. */
must_check int bases_plan(struct builds *bs, const struct bases_wish *wish, json_t **ret,
                          struct err *err);

bool bases_are_due(const struct build *b); /* some of them may have to be pulled */
/* 1: one is being pulled, and job_on_base() is called; or `pulling` is NULL: there is no room for
 * one, and the caller looks again. */
must_check int bases_find(struct build *b, struct err *err);
void bases_leave(struct build *b); /* the build waits no longer */
/* Whether a build that has not ended starts from the image. */
bool bases_need(const struct builds *bs, const struct digest *image);
