// SPDX-License-Identifier: Apache-2.0
#pragma once
/* How far a transfer has come, on a terminal only, and only when it takes long enough to ask. */
#include "base/remaining.h"

#include <stdbool.h>
#include <stdint.h>

struct progress {
	uint64_t bytes;
	uint64_t total; /* 0 = not known */
	uint64_t started_us, shown_us;
	struct remaining remaining;
	bool is_shown;
};

void progress_init(struct progress *p, uint64_t total);
void progress_add(struct progress *p, uint64_t bytes);
void progress_done(struct progress *p); /* wipes its line */
