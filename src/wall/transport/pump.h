// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Copies bytes between a guest and its host, both ways, unchanged. Bytes that one side does not
 * take are not read from the other, so a connection holds at most PUMP_BUFFER per direction. When
 * one direction ends, the other goes on. Each direction keeps to its door's pace.
 */
#include "base/buf.h"
#include "wall/transport/pace.h"

#define PUMP_BUFFER ((size_t)64 * 1024)

struct pump;

struct pump_config {
	struct loop *loop;
	int guest_fd, up_fd;             /* owned; connected, non-blocking */
	const struct buf *first;         /* what the guest has sent already; copied */
	struct pace *in_pace, *out_pace; /* to and from the guest; borrowed */
	/* Called with the bytes read; the callee takes them from the paces. */
	void (*count)(uint64_t in_bytes, uint64_t out_bytes, void *arg);
	loop_fn done; /* both ways have ended, or it was silent for too long; once */
	void *arg;
};

must_check int pump_new(const struct pump_config *config, struct pump **ret);
void pump_free(struct pump *p); /* NULL is fine */
