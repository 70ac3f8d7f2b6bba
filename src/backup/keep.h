// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Removes the oldest backups of a directory, and the content that no other one has. */
#include "backup/content.h"

must_check int keep_newest(const char *path, uint64_t n, uint64_t *ret_removed, uint64_t *ret_freed,
                           struct err *err);
