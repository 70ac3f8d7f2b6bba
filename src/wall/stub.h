// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * DNS as a sandbox has it: names that its policy could let through, and of their addresses those
 * that it may dial. Every other name is refused here, and nobody outside ever hears of it.
 */
#include "wall/door.h"

struct question;

/* Called once, maybe from inside stub_ask(); answer is borrowed. */
typedef void (*stub_fn)(const struct buf *answer, void *arg);

/*
 * A message that a guest sent. NULL: it was answered at once, or is none and gets no answer
 * (*ret_dropped).
 */
struct question *stub_ask(struct door *door, const void *data, size_t len, bool is_tcp, stub_fn fn,
                          void *arg, bool *ret_dropped);
void stub_cancel(struct question *q); /* fn is not called; NULL is fine */
void stub_on_datagrams(struct door *door, int fd);
void stub_cancel_all(struct door *door);
