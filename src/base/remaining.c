// SPDX-License-Identifier: Apache-2.0
#include "base/remaining.h"

#include "base/auto.h"

#define FIRST_US    3000000
#define LEAST_US    1000000
#define FASTEST_US  2000000 /* the estimate takes this long to move by half, or longer: */
#define SLOWNESS    4       /* a quarter of the time that it has run */
#define FIRST_PARTS 10      /* one of so many is done before anything is told */

uint64_t remaining_us(struct remaining *r, uint64_t now_us, uint64_t ran_us, uint64_t done,
                      uint64_t total)
{
	double estimate_us, passed_us, slow_us;

	if (total == 0 || ran_us < FIRST_US || done < total / FIRST_PARTS || done == 0) {
		*r = (struct remaining){0};
		return 0;
	}
	done = MIN(done, total);
	estimate_us = (double)now_us + (double)ran_us / (double)done * (double)(total - done);
	passed_us = (double)(now_us - r->looked_us);
	slow_us = (double)MAX(ran_us / SLOWNESS, (uint64_t)FASTEST_US);
	if (r->end_us == 0)
		r->end_us = (uint64_t)estimate_us;
	else
		r->end_us =
			(uint64_t)((double)r->end_us + (estimate_us - (double)r->end_us) *
		                                               passed_us / (passed_us + slow_us));
	r->looked_us = now_us;
	return r->end_us > now_us + LEAST_US ? r->end_us - now_us : LEAST_US;
}
