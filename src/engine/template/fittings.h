// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What cloche adds to every image: the interpreters' drivers, the `sudo` of the inside, whom to
 * trust and whom to ask for names, and the directories that a sandbox mounts things on. They lie
 * over the image as a layer of their own and never in it, so that an image outlives the cloche that
 * made it.
 */
#include "base/buf.h"

/* Fills the directory. */
must_check int fittings_write(int fd, const void *agent, size_t agent_len,
                              const struct buf *drivers, const struct buf *ca);
