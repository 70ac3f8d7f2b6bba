// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Content-defined chunking: cuts a stream into pieces at places that a rolling hash of the last 64
 * bytes decides. So a change in the middle does not move the cuts after it, and the pieces after it
 * stay the same. No I/O.
 */
#include "base/auto.h"

/* Where the first piece ends: at most len, and len if the data is shorter than the longest piece
 * and has no cut. Pieces have 256 KiB to CHUNK_MAX, 1 MiB on average. */
size_t cut_find(const unsigned char *data, size_t len);
