// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The settings of the network wall that both gateway and wall read. */
#include "base/err.h"
#include "daemon/site.h"
#include "net/match/range.h"

#define NETWORK_RANGES_MAX 64

struct network_ranges {
	struct cidr items[NETWORK_RANGES_MAX];
	size_t n;
};

struct network_site {
	struct network_ranges never;        /* no policy opens them */
	struct network_ranges may_open;     /* of the operator's: a policy may open them */
	uint16_t ports[SITE_LISTENERS_MAX]; /* the daemon's own */
	size_t n_ports;
};
/* The addresses that the daemon listens on; valid as long as these fds are open. */
void network_site_listeners(struct network_site *ret, const struct site *site);
must_check int network_site_read(struct network_site *ret, const struct config *c, struct err *err);
/* Whether the wall will take them; nothing is kept. */
must_check int wall_check_settings(const struct config *c, struct err *err);
/* Without the host's own addresses. Borrowed from n. */
struct range_site network_site_ranges(const struct network_site *n);
