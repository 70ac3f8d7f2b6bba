// SPDX-License-Identifier: Apache-2.0
/*
 * The scheduler's time slice: how long a thread wants to run at a time.
 *
 * With a shorter slice a thread that wakes up runs sooner, and a running one makes room sooner
 * (EEVDF, since Linux 6.12; older kernels ignore it). It gives nobody more time. Threads and
 * children inherit it.
 */
#ifndef CLOCHE_BASE_SLICE_H
#define CLOCHE_BASE_SLICE_H

/* For the gateway and everything in sandboxes. A call wakes up four such threads, one after the
 * other. With the kernel's default of 3 ms it would wait for a busy neighbour each time. */
#define SLICE_NS 200000

/* Sets the calling thread's slice to SLICE_NS and changes nothing else. The kernel may ignore
 * it. */
void slice_shorten(void);

#endif
