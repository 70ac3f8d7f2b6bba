// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Whether a service is healthy. The check of the Compose file wins over that of the image; each
 * probe is an exec in the sandbox, as the service's user. One success is enough. It is unhealthy
 * when `retries` probes, an interval apart and past the start period, have all failed.
 */
#include "cli/frame/command.h"

struct health {
	json_t *test; /* words, the first of which is CMD or CMD-SHELL; NULL: there is no check */
	uint64_t interval_us, timeout_ms, start_us;
	unsigned retries;
	/* how it goes */
	bool is_healthy, is_unhealthy;
	unsigned failed; /* in a row, those that count */
	uint64_t next_us, counted_us, pause_us;
	char said[200]; /* by the last that failed */
};

/* spec: the service; manifest: its template's. start_us: when its command began. */
void health_init(struct health *h, const json_t *spec, const json_t *manifest, uint64_t start_us);
void health_done(struct health *h);
/* One probe if it is time for one. */
must_check int health_probe(struct health *h, struct remote *remote, const char *sandbox,
                            const json_t *spec, struct err *err);
