// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What cloche adds to every image: the interpreters' drivers, the `sudo` for inside, certificates,
 * the DNS settings, and mount points. They are a layer over the image and never part of it, so an
 * image works with later versions of cloche.
 */
#include "base/buf.h"

/* Fills the directory. */
must_check int fittings_write(int fd, const void *agent, size_t agent_len,
                              const struct buf *drivers, const struct buf *ca);
