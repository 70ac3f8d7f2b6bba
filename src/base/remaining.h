// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * How much longer something takes, for a person to look at. What is left by the part that is done
 * jumps wherever the parts are not equally long. So the moment of the end is kept from look to look
 * and moves towards each new estimate only as fast as time goes by; between looks it is a clock
 * that counts down. There is nothing to tell before a tenth is done and some seconds have passed.
 */
#include <stdint.h>

struct remaining { /* all zero at the beginning */
	uint64_t end_us, looked_us;
};

/* ran_us: since the beginning. done of total, in any unit; total 0 = not known. 0: nothing can be
 * said; else at least a second. */
uint64_t remaining_us(struct remaining *r, uint64_t now_us, uint64_t ran_us, uint64_t done,
                      uint64_t total);
