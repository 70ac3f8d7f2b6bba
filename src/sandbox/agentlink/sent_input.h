// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Input that was sent to the agent and that it has not taken yet: it is sent again if the
 * connection is lost. It lies in pieces of one size, so an upload neither moves nor grows what it
 * keeps, and the heap gives it the same few pieces again and again.
 */
#include "base/auto.h"

#define SENT_INPUT_MAX (256 * 1024) /* as much as is in flight on a channel (proto/frame.h) */

struct sent_piece;

struct sent_input { /* zeros are none */
	struct sent_piece *first, *last;
	size_t len;
};

size_t sent_input_room(const struct sent_input *u);
/* At most sent_input_room() bytes. */
void sent_input_append(struct sent_input *u, const char *data, size_t len);
void sent_input_consume(struct sent_input *u, size_t len); /* at most as many as there are */
void sent_input_done(struct sent_input *u);                /* drops all; may be used again */
/* Gives every byte to fn, in order, until that returns < 0, which is returned. */
must_check int sent_input_each(const struct sent_input *u,
                               int (*fn)(const char *data, size_t len, void *arg), void *arg);
