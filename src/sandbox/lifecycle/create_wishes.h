// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a create's spec asks for, found and checked; and which spare would do for it. */
#include "sandbox/lifecycle/create_source.h"
#include "sandbox/model/ops.h"
#include "sandbox/storage/storage.h"

struct wishes {
	uint32_t engine;
	struct guest_limits limits;
	uint64_t timeout_ms;
	struct policy *policy;
	struct source *source; /* NULL: none, and no policy for it */
	struct policy *lent;
	struct template *template; /* NULL: host, or by its image */
	struct snapshot *snapshot; /* NULL: none */
	struct guest_volume volumes[VOLUMES_MAX];
};

void wishes_done(struct wishes *w);
/* Nothing is taken or begun by this. */
must_check int wishes_read(struct fleet *fleet, const char *project_id,
                           const struct sandbox_spec *spec, struct wishes *w, struct err *err);
/* The spare that would do, where none of its fields is in the way. Borrows from all. */
struct spare_kind wishes_spare(const struct fleet *fleet, const char *project_id,
                               const struct sandbox_spec *spec, const struct wishes *w);
/* The field for which no spare does; NULL: one may. */
const char *wishes_spare_bar(const struct sandbox_spec *spec, const struct wishes *w);
