// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The last readings of a sandbox's meter, for who draws them: a ring of a fixed size, in memory
 * alone. What is charged is not taken from here.
 */
#include "sandbox/model/sandbox.h"

struct samples;

/* Makes *samples if there are none yet. One that comes within gap_us of the last is left out, so
 * that whoever asks often pushes out nothing. */
void samples_add(struct samples **samples, const struct sandbox_sample *sample, uint64_t gap_us);
size_t samples_count(const struct samples *samples); /* NULL has none */
const struct sandbox_sample *samples_at(const struct samples *samples, size_t i); /* oldest first */
void samples_free(struct samples *samples);
