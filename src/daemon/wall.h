// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The settings of the network wall that both of its ends read. */
#include "base/err.h"
#include "net/match/address.h"

struct config;

#define NETWORK_RANGES_MAX 64

struct network_ranges {
	struct cidr items[NETWORK_RANGES_MAX];
	size_t n;
};

struct network_site {
	struct network_ranges never;    /* no policy opens them */
	struct network_ranges may_open; /* of the operator's: a policy may open them */
};
must_check int network_site_read(struct network_site *ret, const struct config *c, struct err *err);
