// SPDX-License-Identifier: Apache-2.0
#include "sandbox/usage/samples.h"

#include "sandbox/model/sandbox_private.h"

#include <assert.h>

#define SAMPLES_MAX 120 /* a quarter of an hour or more, in 7 KiB */

struct samples {
	size_t first, n;
	struct sandbox_sample ring[SAMPLES_MAX];
};

size_t samples_count(const struct samples *samples)
{
	return samples ? samples->n : 0;
}

const struct sandbox_sample *samples_at(const struct samples *samples, size_t i)
{
	assert(i < samples_count(samples));
	return &samples->ring[(samples->first + i) % SAMPLES_MAX];
}

void samples_add(struct samples **samples, const struct sandbox_sample *sample, uint64_t gap_us)
{
	struct samples *s = *samples;

	if (!s)
		s = *samples = xnew0(struct samples);
	/* If the clock was set back, the new sample is still taken. */
	if (s->n > 0 && sample->at_us >= samples_at(s, s->n - 1)->at_us &&
	    sample->at_us - samples_at(s, s->n - 1)->at_us < gap_us)
		return;
	if (s->n == SAMPLES_MAX) {
		s->first = (s->first + 1) % SAMPLES_MAX;
		s->n--;
	}
	s->ring[(s->first + s->n++) % SAMPLES_MAX] = *sample;
}

void samples_free(struct samples *samples)
{
	free(samples);
}
