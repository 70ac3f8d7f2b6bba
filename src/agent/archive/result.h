// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a file operation gives: bytes for the host, or an error that names the path. */
#include "base/err.h"

#define RESULT_DATA_FD 1

/* Blocking: the host's window is the brake. */
must_check int result_send(const void *data, size_t len, struct err *err);
int result_error(struct err *err, int errnum, const char *what, const char *path);
