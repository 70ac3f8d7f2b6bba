// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * CRIU before 4.2 does not save that a mapping is emptied in children (MADV_WIPEONFORK), nor that
 * the kernel may empty it at any time (MAP_DROPPABLE). Programs keep random state in such memory,
 * and notice by zeros that they need another. What CRIU does save is advice on a mapping, also two
 * of a kind of which a mapping can have only one. Such pairs stand for the two properties: CRIU is
 * shown them in smaps (shown_mapping.c), and memory_image_repair() replaces them in the images by
 * what they stand for.
 */
#include <sys/mman.h>

#ifndef MAP_DROPPABLE /* Linux 6.11 */
#define MAP_DROPPABLE 0x08
#endif

#define ADVICE(which) (1UL << (which))

#define MARK_WIPED           (ADVICE(MADV_SEQUENTIAL) | ADVICE(MADV_RANDOM))
#define MARK_WIPED_FLAGS     " sr rr" /* as smaps has it */
#define MARK_DROPPABLE       (ADVICE(MADV_HUGEPAGE) | ADVICE(MADV_NOHUGEPAGE))
#define MARK_DROPPABLE_FLAGS " hg nh"
