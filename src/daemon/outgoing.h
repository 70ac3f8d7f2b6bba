// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the gateway sends out by itself: webhooks, through the dialer. */
#include "daemon/config/config.h"
#include "hook/hook.h"

#define OUTGOING_RANGES_MAX 64

/* Ranges in the settings that are not public but may be sent to. */
struct outgoing_ranges {
	struct cidr items[OUTGOING_RANGES_MAX];
	size_t n;
};
must_check int outgoing_ranges_parse(struct outgoing_ranges *r, char *const *list, struct err *err);

struct outgoing {
	struct tls_context *tls; /* NULL: this host has no certificates to check with */
	struct outgoing_ranges allowed;
	struct dialer *dialer;
	struct hooks *hooks;
};
/* Called while the host's certificates can still be read. */
must_check int outgoing_prepare(struct outgoing *o, const struct config *config, struct err *err);
/* Owns dialer_fd. */
must_check int outgoing_open(struct outgoing *o, struct loop *loop, struct store *store,
                             struct event_log *events, const struct secrets *secrets, int dialer_fd,
                             struct err *err);
void outgoing_close(struct outgoing *o);
