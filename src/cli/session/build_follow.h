// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Shows a build, which is the daemon's. On a terminal there is one line that says how far it is;
 * elsewhere each step is a line. When the connection breaks, the build goes on, and we come back
 * for what we missed.
 */
#include "base/json/json.h"
#include "cli/remote/remote.h"

struct build_follow {
	struct remote *remote;
	bool is_verbose; /* all that it prints, to stdout */
	bool is_quiet;   /* the line of a terminal alone */
	bool has_bar;
	uint64_t last_seq;
	json_t *build; /* as it ended, for json_decref(); NULL until then */
};

/* What there is, or with is_following all that is to come; > 0: it has ended. */
must_check int build_follow_read(struct build_follow *f, const char *id, bool is_following,
                                 struct err *err);
must_check int build_follow_to_end(struct build_follow *f, const char *id, struct err *err);
/* Why a build that has ended is not ready; 0 if it is. */
must_check int build_follow_error(const json_t *build, struct err *err);

/* Is it on its way? Then text is how far: "43 %, packages, about 2 min left". For free(). */
bool build_is_going(const json_t *build);
char *build_progress(const json_t *build);
