// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Where the daemon itself may connect to. Tenants name the URLs of webhooks, so those must be
 * public, or in a range that the operator has opened. What the operator names in the settings, such
 * as a collector, may lie anywhere: exactly that host and port are open besides.
 */
#include "daemon/config/config.h"
#include "net/match/url.h"

#define DIAL_RANGES_MAX 64
#define DIAL_PLACES_MAX 8

struct dial_place {
	struct host host;
	uint16_t port;
};
struct dial_rules {
	struct cidr ranges[DIAL_RANGES_MAX]; /* that are not public */
	size_t n_ranges;
	struct dial_place places[DIAL_PLACES_MAX];
	size_t n_places;
};

must_check int dial_rules_read(struct dial_rules *rules, const struct config *config,
                               struct err *err);
/* For one setting that names a place by its URL. NULL and "" name none. */
must_check int dial_rules_add_place(struct dial_rules *rules, const char *setting, const char *url,
                                    struct err *err);
/* Whether a setting names this host and port; host is a name or an address without brackets. */
bool dial_rules_name(const struct dial_rules *rules, const char *host, uint16_t port);
