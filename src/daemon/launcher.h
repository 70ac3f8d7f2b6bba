// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Keeps broker and gateway running on a prepared site, until SIGTERM or SIGINT. SIGHUP has them
 * replaced by ones with new settings.
 */
#include "daemon/reload.h"
#include "daemon/site.h"

/* ready is called each time both are up. 0 when it was told to stop and did; else err says why. */
must_check int launcher_run(const struct site *site, struct reload *reload,
                            void (*ready)(const struct site *site), struct err *err);
