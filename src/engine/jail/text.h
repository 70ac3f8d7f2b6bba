// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Text files of the host that may be long: /proc/self/mountinfo, dpkg's status. */
#include "base/buf.h"

/* Appends all of the file to *ret, whose cap bounds it. 0 or a negative errno. */
must_check int text_read(const char *path, struct buf *ret);
