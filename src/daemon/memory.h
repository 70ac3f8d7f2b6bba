// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Gives memory back to the host after a burst. malloc keeps freed memory for the next burst, and by
 * default it keeps more and more. So its thresholds are fixed, and free memory is given back from
 * time to time.
 */

void memory_prepare(void);   /* at the start */
void memory_give_back(void); /* cheap if there is nothing to give back */
