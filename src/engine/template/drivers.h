// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Copies the interpreters' drivers (kernels/ of the source) into a template. They are read once, so
 * that what is hashed is what is written. The libraries that the drivers of Python and R load
 * (src/driver) are part of this program and are added to them.
 */
#include "base/buf.h"
#include "base/err.h"

/* Appends every directory and file below dir to out, in order of names. dir NULL: there are
 * none. */
must_check int drivers_read(const char *dir, struct buf *out, struct err *err);
/* Writes them below opt/cloche/kernels of a template's root; the directory exists and is empty. */
must_check int drivers_write(const struct buf *drivers, int root_fd);
