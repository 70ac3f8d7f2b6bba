// SPDX-License-Identifier: Apache-2.0
#pragma once
/* After a restart: who of RUN/sandboxes is alive? */
#include "base/err.h"

/* Takes over the sandbox with this id; -ESRCH if it is dead, and everything of it removed. */
typedef int (*adopt_fn)(const char *id, struct err *err, void *arg);

/* Calls fn for each directory of RUN/sandboxes that is named like a sandbox. One that cannot be
 * taken over is logged and keeps no other from it, but for one of another version
 * (-EPROTONOSUPPORT): that is the result, and nothing may be swept. */
must_check int adopt_all(const char *run_dir, adopt_fn fn, void *arg, struct err *err);
