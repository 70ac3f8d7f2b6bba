// SPDX-License-Identifier: Apache-2.0
#pragma once
/* People who log in at a provider, as the settings of section [login] say: what the gateway needs
 * for that. Without an issuer there is none of it. */
#include "daemon/config/config.h"
#include "person/login_flow.h"
#include "person/renewal.h"

struct people {
	char *client_secret; /* NULL: a public client */
	char *scopes;
	struct role_map *roles;
	struct provider *provider;
	struct person_sessions *sessions;
	struct login_flow *flow; /* NULL: there is no provider */
	struct renewal *renewal;
};

/* Called while the file with the client's secret can still be read. */
must_check int people_prepare(struct people *p, const struct config *config, struct err *err);
struct people_services { /* borrowed */
	struct loop *loop;
	const struct outgoing *outgoing;
	struct store *store;
	struct keyring *ring;
	struct event_log *events;
	const struct master_keys *keys;
};
must_check int people_open(struct people *p, const struct config *config,
                           const struct people_services *services, struct err *err);
void people_close(struct people *p);
