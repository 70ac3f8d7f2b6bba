// SPDX-License-Identifier: Apache-2.0
/*
 * The scheduler's slice: for how long a thread would run at a time.
 *
 * The shorter it is, the sooner does the kernel let a thread run that wakes up, and the sooner does
 * one that runs make room (EEVDF, since Linux 6.12; an older kernel ignores it). Nobody gets more
 * time by it. Threads and children inherit it.
 */
#ifndef CLOCHE_BASE_SLICE_H
#define CLOCHE_BASE_SLICE_H

/* Of the gateway, and of everything in sandboxes. A call wakes up four of these, one after the
 * other; with the kernel's usual 3 ms it would wait at each for a busy neighbour. */
#define SLICE_NS 200000

/* The thread's own is set to SLICE_NS, with all else as it is. A kernel may not do it. */
void slice_shorten(void);

#endif
