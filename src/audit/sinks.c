// SPDX-License-Identifier: Apache-2.0
#include "audit/sinks.h"

struct audit_sinks {
	struct object_push *objects;
	struct syslog_feed *syslog;
};

int audit_sinks_open(const struct audit_sinks_config *config, struct audit_sinks **ret,
                     struct err *err)
{
	struct audit_sinks *sinks = xnew0(struct audit_sinks);
	int r = 0;

	if (config->objects.url)
		r = object_push_open(&config->objects, &sinks->objects, err);
	if (r == 0 && config->syslog.url)
		r = syslog_feed_open(&config->syslog, &sinks->syslog, err);
	if (r < 0) {
		audit_sinks_close(sinks);
		return r;
	}
	*ret = sinks;
	return 0;
}

void audit_sinks_close(struct audit_sinks *sinks)
{
	if (!sinks)
		return;
	object_push_close(sinks->objects);
	syslog_feed_close(sinks->syslog);
	free(sinks);
}

bool audit_sinks_objects(const struct audit_sinks *sinks, struct sink_status *ret)
{
	if (!sinks || !sinks->objects)
		return false;
	object_push_status(sinks->objects, ret);
	return true;
}

bool audit_sinks_syslog(const struct audit_sinks *sinks, struct sink_status *ret)
{
	if (!sinks || !sinks->syslog)
		return false;
	syslog_feed_status(sinks->syslog, ret);
	return true;
}
