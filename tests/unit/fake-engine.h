// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A table with an engine without guests, for whoever stands on struct engine. It answers from the
 * loop, as a real one does; tests hold back its answers, make its starts fail and its guests die.
 */
#include "engine/engine.h"

#define FAKE_MACHINE 2 /* the number of an engine that is not there */

#define FAKE_VOLUMES_MAX 3

struct fake_state {
	bool holds_starts, holds_kills; /* answers wait for fake_release() */
	bool fails_start;               /* synchronously */
	bool fails_started;             /* later, by started() */
	bool has_left;
	size_t n_starts, n_kills, n_alive;
	struct guest_limits limits; /* last set */
	struct guest_shortage shortage;
	bool is_frozen;
	unsigned freezing;           /* it is done when it was asked so many times */
	bool fails_fork, holds_fork; /* held, it is told when the engine is left */
	char fork_tag[ID_SIZE];      /* of the last one */
	bool lacks_ipv6;             /* doors have no sockets of it */
	size_t n_doors;              /* opened since the last close */
	int dialled_family;
	uint16_t dialled;
	const char *kept; /* the one id whose layer is kept, by keeper 7 */
	size_t n_discards;
	guest_gone_fn discard_gone;
	void *discard_arg;
	const char *dead;      /* the one id whose last counters the discard still reads, too few */
	const char *adoptable; /* the one id that adopt() finds alive */
	uint32_t adopted_slot;
	struct guest_spec last_spec;
	backup_fn frozen; /* whom to tell, until it is released */
	void *frozen_arg;
	struct volume_spec volumes[FAKE_VOLUMES_MAX];
	size_t n_volumes;
	struct volume_copy_spec copy; /* of the last one asked for */
	volume_copied_fn copied;      /* the test calls it, and sets it to NULL */
	void *copied_arg;
	int sync_fd; /* a pipe: a sync takes until a byte comes; 0: it cannot be done */
	pid_t syncer;
	int sync_status; /* it exits with this */
};
extern struct fake_state fake;

void fake_reset(void);
void fake_tell_frozen(const struct backup_counts *counts, const struct err *err);
void fake_release(void);                              /* lets held starts and kills go on */
void fake_end_guest(const char *id, int wait_status); /* its first process dies */
void fake_free(void);                                 /* guests that are left */
