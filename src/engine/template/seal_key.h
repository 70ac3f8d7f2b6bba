// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The key with which the brokers of a cluster seal (object/object_seal.h): the first half of
 * DATA/cluster/objects.keys. It is read anew for each seal, since a node may join while it runs.
 */
#include "engine/engine.h"
#include "object/object_seal.h"

/* ERR_UNAVAILABLE: this node has no key. */
must_check int seal_make(struct guest_host *host, const struct object_claim *claim,
                         struct digest *ret, struct err *err);
/* ERR_CONFLICT: no broker of the cluster has sealed this. what: for the error, as "image". */
must_check int seal_check(struct guest_host *host, const struct object_claim *claim,
                          const struct digest *seal, const char *what, struct err *err);
/* The key of what the gateways of a cluster share (object_seal_derive()). ERR_UNAVAILABLE. */
must_check int seal_derive_gateway_key(struct guest_host *host, uint8_t ret[OBJECT_SEAL_KEY],
                                       struct err *err);
