// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Memory that a burst took goes back to the host. malloc keeps what is freed for the next burst,
 * and left alone it keeps ever more: so its thresholds are fixed, and what is free is given back
 * from time to time.
 */

void memory_prepare(void);   /* at the start */
void memory_give_back(void); /* cheap where there is nothing to give */
