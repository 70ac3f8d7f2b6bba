// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Output comes in stretches that end anywhere, also within a character. A text_carry stands between
 * stretches of one stream: it holds back a character that was cut at the end, so that it goes out
 * whole with the next stretch.
 */
#include "base/buf.h"

struct text_carry {
	char bytes[3];
	unsigned len;
};

/* Appends to out what was held and then data, but for a character cut at its end, which is held. */
must_check int text_take(struct text_carry *c, const char *data, size_t len, struct buf *out);
/* Appends what is held: nothing will complete it. */
must_check int text_flush(struct text_carry *c, struct buf *out);
