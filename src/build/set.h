// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Package sets, for `packages` of a create or a run. A set is a template of the caller's project,
 * which a build makes from another template and the packages. Clients cannot give such a name
 * ("python+" and a hash over image and packages). The first create waits for the build; all others
 * start from the image like from any other.
 *
 *	packages, template --> set there? --> create over its image
 *	                            | no
 *	                            +--> the build of it (there is one at most) --> once more
 *
 * Sets are kept as long as there is room: the least recently used are removed first, and those
 * whose template is gone or has another image by now. A set that a sandbox uses stays.
 */
#include "build/build.h"

struct template;

struct set_wish {
	const char *project_id;
	const char *template; /* as in a create; NULL = the default */
	const char *language; /* of the code that is to run, or NULL: bare names are its packages */
	const json_t *packages; /* array, as it came */
};
/* 0: *ret is the set, or NULL if no package is asked for. 1: *ret_build is making it. */
must_check int set_find(struct builds *bs, const struct set_wish *wish, struct template **ret,
                        struct build **ret_build, struct err *err);
/* Writes the set like a finished build. */
void set_to_json(const struct template *set, struct json_writer *w, const char *name);
