// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Cuts a stream of bytes into pieces at places that the bytes themselves name (a rolling hash of
 * the last 64 of them), so that a change in the middle moves no cut behind it: what comes after is
 * the same pieces again. No I/O.
 */
#include "base/auto.h"

/* Where the first piece ends: at most len, and len itself also when no cut was found in a stretch
 * that is shorter than the longest piece. Pieces have 256 KiB to CHUNK_MAX, 1 MiB on average. */
size_t cut_find(const unsigned char *data, size_t len);
