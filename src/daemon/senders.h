// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the gateway sends out by itself, and what it sends it through: webhooks, telemetry and the
 * audit log, by the dialer. */
#include "audit/sinks.h"
#include "daemon/dial_rules.h"
#include "hook/hook.h"
#include "telemetry/telemetry.h"

#define HOST_NAME_SIZE 65

struct senders {
	struct outgoing outgoing;
	struct dial_rules rules;
	struct hooks *hooks;
	struct telemetry_headers headers; /* for the collector */
	char host_name[HOST_NAME_SIZE];
	const struct config *config;
	struct object_credentials credentials; /* of the store of audit.s3_url */
	struct audit_sinks *audit;
};
/* Only what the settings say, with the files that they name. */
must_check int senders_read(struct senders *s, const struct config *config, struct err *err);
/* Called while the host's certificates and the settings' files can still be read. */
must_check int senders_prepare(struct senders *s, const struct config *config, struct err *err);
/* Owns dialer_fd. */
must_check int senders_open(struct senders *s, struct loop *loop, struct store *store,
                            struct event_log *events, const struct secrets *secrets, int dialer_fd,
                            struct err *err);
/* Begins to send the logs to where the settings say. */
must_check int senders_open_audit(struct senders *s, struct store *store, struct event_log *events,
                                  const struct seal_key *seal_key, struct err *err);
void senders_close(struct senders *s);
