// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A body that may be long, into a file or to stdout. */
#include "cli/remote/remote.h"

/* path NULL: stdout. A file is written beside its name and renamed: there is never half of one. */
must_check int download(struct remote *remote, const char *url, const char *accept,
                        const char *path, struct err *err);
