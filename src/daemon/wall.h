// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The settings of the network wall that both of its ends read. */
#include "base/err.h"
#include "net/match/address.h"

#define NETWORK_NEVER_MAX 64

struct network_never { /* ranges that no policy opens */
	struct cidr items[NETWORK_NEVER_MAX];
	size_t n;
};
must_check int network_never_parse(struct network_never *n, char *const *list, struct err *err);
