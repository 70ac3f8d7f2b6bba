// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The seal of brokers: an HMAC-SHA-256 by a key that the cluster's brokers alone have. It says that
 * one of them has made what has this digest. Without it a broker mounts, restores and boots nothing
 * that came from outside, whatever database, store, member or gateway say. Pure: no I/O.
 *
 * An image's digest covers those of its bases (docs/design/bases.md), so they need no place here.
 */
#include "base/digest.h"

#define OBJECT_SEAL_KEY 32

enum object_kind { /* the numbers are stored */
	           OBJECT_IMAGE = 1,
	           OBJECT_FILES,  /* of a jail: a bundle */
	           OBJECT_DISK,   /* of a vm */
	           OBJECT_MEMORY, /* returns only where its class is */
	           OBJECT_KIND_END
};

struct object_claim {
	enum object_kind kind;
	uint64_t size;        /* of the whole, in bytes */
	uint64_t generation;  /* of a sandbox's snapshots; 0 of images */
	struct digest digest; /* SHA-256 of the whole */
	struct digest class;  /* of what can use it; zero: everybody */
};

void object_seal_make(const uint8_t key[OBJECT_SEAL_KEY], const struct object_claim *claim,
                      struct digest *ret);
/* A key of its own for something else that the nodes of a cluster share. What it is for says what,
 * of 47 bytes at most; who has it knows nothing of the brokers' key. */
void object_seal_derive(const uint8_t key[OBJECT_SEAL_KEY], const char *what,
                        uint8_t ret[OBJECT_SEAL_KEY]);
/* In constant time. */
bool object_seal_fits(const uint8_t key[OBJECT_SEAL_KEY], const struct object_claim *claim,
                      const struct digest *seal);
