// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Where the event log and the audit log are sent by the daemon itself: as sealed objects to an
 * S3-compatible store (object_push.h), as lines to a syslog server (syslog_feed.h), both or
 * neither. */
#include "audit/object_push.h"
#include "audit/syslog_feed.h"

struct audit_sinks;

struct audit_sinks_config {
	struct object_push_config objects; /* its url NULL: none */
	struct syslog_feed_config syslog;  /* likewise */
};

must_check int audit_sinks_open(const struct audit_sinks_config *config, struct audit_sinks **ret,
                                struct err *err);
void audit_sinks_close(struct audit_sinks *sinks); /* NULL is fine */
/* false: there is no such one. sinks may be NULL. */
bool audit_sinks_objects(const struct audit_sinks *sinks, struct sink_status *ret);
bool audit_sinks_syslog(const struct audit_sinks *sinks, struct sink_status *ret);
