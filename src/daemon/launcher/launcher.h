// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Keeps the daemon's parts running on a prepared site, until SIGTERM or SIGINT. On SIGHUP they are
 * replaced by ones with new settings.
 */
#include "daemon/reload.h"
#include "daemon/site.h"

/* ready is called each time they are up. Returns 0 if it was told to stop and did; else err says
 * why. */
must_check int launcher_run(const struct site *site, struct reload *reload,
                            void (*ready)(const struct site *site), struct err *err);
