// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The last readings of a sandbox's meter, for graphs: a ring of fixed size, in memory only. Charges
 * are not computed from these.
 */
#include "sandbox/model/sandbox.h"

struct samples;

/* Makes *samples if needed. A sample within gap_us of the last one is left out, so that frequent
 * requests do not push out older samples. */
void samples_add(struct samples **samples, const struct sandbox_sample *sample, uint64_t gap_us);
size_t samples_count(const struct samples *samples); /* NULL has none */
const struct sandbox_sample *samples_at(const struct samples *samples, size_t i); /* oldest first */
void samples_free(struct samples *samples);
