// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A bounded record of an exec's output on the host's disk. Events have sequence numbers from 1.
 * Past the bound the oldest are removed, and a reader that asks for them gets a gap with the number
 * of lost bytes: exact if it reads continuously, estimated if it comes back with an old number. It
 * is written to the page cache without sync. It survives the gateway's death, so an event can be
 * acknowledged to the agent once it is written.
 */
#include "base/err.h"
#include "base/list.h"

#include <stdbool.h>

struct spool;

enum spool_kind {
	SPOOL_STDOUT = 1,
	SPOOL_STDERR = 2,
	SPOOL_GAP = 100 /* made by spool_next(), never stored */
};
struct spool_event {
	uint64_t seq;
	uint64_t at_us; /* wall clock */
	uint8_t kind;
	const char *data; /* valid until the next call on this spool */
	size_t len;
	uint64_t lost_bytes, lost_events; /* SPOOL_GAP */
};

/* The file is made at the first event: an exec without output costs no file. */
must_check int spool_new(int dir_fd, const char *name, uint64_t bytes_max, struct spool **ret,
                         struct err *err);
/* Opens an existing one after a restart; a torn last event is cut off. *ret_offset: bytes of output
 * ever put in (for RESUME). */
must_check int spool_reopen(int dir_fd, const char *name, uint64_t bytes_max, struct spool **ret,
                            uint64_t *ret_offset, struct err *err);
must_check int spool_put(struct spool *sp, uint8_t kind, const void *data, size_t len,
                         struct err *err);
/* The first event with seq > after: 1, or 0 when there is none yet. */
must_check int spool_next(struct spool *sp, uint64_t after, struct spool_event *ret,
                          struct err *err);
/* Notes that len bytes of this kind could not be kept: readers get a gap instead. */
void spool_skip(struct spool *sp, uint8_t kind, uint64_t len);
uint64_t spool_kept(const struct spool *sp); /* bytes that it takes on disk */
/* The same for a spool that is not open, by its figures. */
uint64_t spool_estimate(uint64_t last_seq, uint64_t bytes);
/* Drops the oldest events until that many bytes are free. The last event stays: it says how much
 * was ever written. */
void spool_shed(struct spool *sp, uint64_t bytes);
void spool_drop(struct spool *sp); /* all events, with the file; figures and numbers stay */
/* Raises the figures: there was more than the file knows of. */
void spool_raise(struct spool *sp, uint64_t last_seq, uint64_t stdout_bytes, uint64_t stderr_bytes);
/* No event is expected for now: frees fd and memory. A later call opens the file again. */
void spool_rest(struct spool *sp);
uint64_t spool_last_seq(const struct spool *sp);
uint64_t spool_bytes(const struct spool *sp, uint8_t kind); /* ever put, by kind */
void spool_free(struct spool *sp, bool unlink_file);
void spool_remove(int dir_fd, const char *name); /* one that is not open; there may be none */
