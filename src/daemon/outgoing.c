// SPDX-License-Identifier: Apache-2.0
#include "daemon/outgoing.h"

#include "http/tls.h"

#include <string.h>

#define CA_FILE                                                                                    \
	"/etc/ssl/certs/ca-certificates.crt" /* Debian's, in one file: read once, and whole */

int outgoing_ranges_parse(struct outgoing_ranges *r, char *const *list, struct err *err)
{
	for (; list && *list; list++) {
		const char *why = "there are too many";

		if (r->n == OUTGOING_RANGES_MAX ||
		    cidr_parse(*list, strlen(*list), &r->items[r->n], &why) < 0)
			return err_field(err, "webhooks_allow", "'%s': %s", *list, why);
		r->n++;
	}
	return 0;
}

int outgoing_prepare(struct outgoing *o, const struct config *config, struct err *err)
{
	const char *ca_file = getenv("SSL_CERT_FILE");
	struct err why;

	if (tls_context_new_client(ca_file ? ca_file : CA_FILE, &o->tls, &why) < 0)
		log_debug("gateway.no_certificates", "error='%s'", why.message);
	return outgoing_ranges_parse(&o->allowed, config->webhooks_allow, err);
}

int outgoing_open(struct outgoing *o, struct loop *loop, struct store *store,
                  struct event_log *events, const struct secrets *secrets, int dialer_fd,
                  struct err *err)
{
	struct hooks_config config = {
		.loop = loop,
		.store = store,
		.events = events,
		.secrets = secrets,
		.tls = o->tls,
		.allowed = o->allowed.items,
		.n_allowed = o->allowed.n,
	};

	o->dialer = config.dialer = dialer_new(loop);
	dialer_attach(o->dialer, dialer_fd);
	return hooks_open(&config, &o->hooks, err);
}

void outgoing_close(struct outgoing *o)
{
	hooks_close(o->hooks);
	dialer_free(o->dialer);
	tls_context_free(o->tls);
}
