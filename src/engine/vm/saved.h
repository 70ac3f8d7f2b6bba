// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A saved machine, in the directory `memory` of a snapshot (engine/guest/disk_snapshot.h):
 *
 *	ram		sparse; pages that were never touched are holes
 *	state		of its devices, as QEMU writes them
 *	manifest	struct saved, with a hash over itself
 */
#include "engine/vm/boot/identity.h"

#define SAVED_RAM   "ram"
#define SAVED_STATE "state"

struct saved {
	uint32_t magic, version;
	uint64_t memory_bytes, disk_bytes;
	uint32_t cpus, is_kvm;
	struct identity identity;
	struct digest ram, state; /* hashes; of a fork's RAM, which is for one moment, none: zero */
	struct digest self;       /* over all before it */
};

must_check int saved_write(int dir_fd, struct saved *s, struct err *err);
/* The error for damaged bytes. */
int saved_damaged(struct err *err);
must_check int saved_read(int dir_fd, struct saved *ret, struct err *err);
/* The hash of a small file from its beginning. */
must_check int saved_hash(int fd, struct digest *ret);
