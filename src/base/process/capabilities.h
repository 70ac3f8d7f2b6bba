// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Gives up capabilities of the calling thread. Sets are masks of BIT64(CAP_…). 0 or a negative
 * errno. */
#include "base/auto.h"

#include <stdint.h>

/* Sets the bounding set: the most that an exec can give. Needs CAP_SETPCAP. */
must_check int capabilities_bound(uint64_t caps);
/* Keeps only those of caps that the thread has, and drops the rest. The ambient set becomes
 * empty. */
must_check int capabilities_keep(uint64_t caps, uint64_t inheritable);
