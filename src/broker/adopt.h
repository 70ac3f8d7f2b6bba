// SPDX-License-Identifier: Apache-2.0
#pragma once
/* After a restart: finds the sandboxes in RUN/sandboxes that are still alive. */
#include "base/err.h"

/* Takes over the sandbox with this id. -ESRCH if it was dead; everything of it is then removed. */
typedef int (*adopt_fn)(const char *id, struct err *err, void *arg);

/* Calls fn for each directory of RUN/sandboxes that is named like a sandbox. A sandbox that cannot
 * be taken over is logged, and the others are still tried. The exception is one of another version:
 * then the result is -EPROTONOSUPPORT, and nothing may be swept. */
must_check int adopt_all(const char *run_dir, adopt_fn fn, void *arg, struct err *err);
