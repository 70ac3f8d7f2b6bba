// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the machine as a whole does, for its history (history/history.h). */
#include "api/api.h"

struct host_reading {
	int stat, meminfo, loadavg; /* of /proc, opened while it was in reach; -1 = not */
	bool has_ticks;
	uint64_t ticks, failed, refused; /* as of the last reading */
};

void host_reading_open(struct host_reading *hr);
/* Of the machine; 0 where it is not known. */
void host_reading_memory(const struct host_reading *hr, uint64_t *ret_total, uint64_t *ret_used);
/* For how long its CPUs have been busy, added up, since it was started; 0: not known. */
uint64_t host_reading_busy_us(const struct host_reading *hr);
/* Sets the figures from HOST_CPU on. False: the broker has not told yet what the disk has. */
bool host_reading_take(struct host_reading *hr, const struct api *api, uint64_t elapsed_us,
                       uint64_t of[HISTORY_FIGURES_MAX]);
