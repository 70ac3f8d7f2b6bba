// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Images that go to other nodes of a cluster, and come from them. No path and no text crosses: the
 * engine hands out a file to read, or an empty one to fill.
 *
 *	share	its file, and its seal
 *	fetch	an empty file in DATA/templates/SEAL, which somebody without rights fills
 *	take	the seal is checked, that nobody can write into the file any more, and what it has
 *		(image_build_finish.h); then it has its name
 *	drop	nobody fills it any more; also what a broker's end leaves, at the next start
 *
 * The seal (object/object_seal.h) is made with a key that the brokers of a cluster alone have:
 * DATA/cluster/objects.keys, which is read anew for each, since a node may join while it runs. So
 * what is mounted here was made by a broker, whoever brought it.
 */
#include "engine/engine.h"

must_check int image_share(struct guest_host *host, const struct image_claim *claim, int *ret_fd,
                           struct image_shared *ret, struct err *err);
must_check int image_fetch(struct guest_host *host, const struct image_claim *claim, int *ret_fd,
                           struct err *err);
/* fn as of a build, and from the loop. 0: it is here already, and was sealed for this; *ret. */
must_check int image_take(struct guest_host *host, const struct image_claim *claim,
                          image_build_fn fn, void *arg, struct image_shared *ret, struct err *err);
void image_drop(struct guest_host *host, const struct digest *image); /* unknown: fine */
void image_exchange_end_all(struct guest_host *host); /* the broker stops: nobody is told */
