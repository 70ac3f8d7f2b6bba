// SPDX-License-Identifier: Apache-2.0
/* The broker alone reads the file of the cluster's keys; what the gateway gets is derived of it. */
#include "sandbox/fleet/fleet.h"

#include "base/log.h"
#include "sandbox/fleet/fleet_private.h"

struct key_ask {
	void (*fn)(const uint8_t key[32], void *arg);
	void *arg;
};

static void on_key(const struct msg_reply *reply, void *arg)
{
	const struct key_ask ask = *(struct key_ask *)arg;

	free(arg);
	if (reply->err.code)
		log_debug("cluster.key_not_had", "error='%s'", reply->err.message);
	ask.fn(reply->err.code ? NULL : reply->gateway_key, ask.arg);
}

void fleet_ask_cluster_key(struct fleet *fleet, void (*fn)(const uint8_t key[32], void *arg),
                           void *arg)
{
	const struct msg_request req = {.op = MSG_GATEWAY_KEY};
	struct key_ask *ask = xnew0(struct key_ask);
	struct err err;

	*ask = (struct key_ask){fn, arg};
	if (broker_client_ask(fleet->broker, &req, on_key, ask, NULL, &err) < 0)
		free(ask); /* it is asked for again */
}
