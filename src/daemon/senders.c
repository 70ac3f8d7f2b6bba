// SPDX-License-Identifier: Apache-2.0
#include "daemon/senders.h"

#include "http/tls.h"

#include <stdlib.h>
#include <unistd.h>

#define CA_FILE                                                                                    \
	"/etc/ssl/certs/ca-certificates.crt" /* Debian's, in one file: read once, and whole */

int senders_read(struct senders *s, const struct config *config, struct err *err)
{
	int r = 0;

	s->config = config;
	if (config->telemetry_url && config->telemetry_headers_file)
		r = telemetry_headers_read(&s->headers, "telemetry.headers_file",
		                           config->telemetry_headers_file, err);
	if (r == 0 && config->audit_s3_url)
		r = object_url_check(config->audit_s3_url, "audit.s3_url", err);
	if (r == 0 && config->audit_s3_url)
		r = object_credentials_read(config->audit_s3_credentials, "audit.s3_credentials",
		                            &s->credentials, err);
	return r < 0 ? r : dial_rules_read(&s->rules, config, err);
}

int senders_prepare(struct senders *s, const struct config *config, struct err *err)
{
	const char *ca_file = getenv("SSL_CERT_FILE");
	struct err why;

	if (tls_context_new_client(ca_file ? ca_file : CA_FILE, &s->outgoing.tls, &why) < 0)
		log_debug("gateway.no_certificates", "error='%s'", why.message);
	if (gethostname(s->host_name, sizeof(s->host_name) - 1) < 0)
		s->host_name[0] = '\0';
	return senders_read(s, config, err);
}

int senders_open(struct senders *s, struct loop *loop, struct store *store,
                 struct event_log *events, const struct secrets *secrets, int dialer_fd,
                 struct err *err)
{
	struct hooks_config config = {
		.store = store,
		.events = events,
		.secrets = secrets,
		.allowed = s->rules.ranges,
		.n_allowed = s->rules.n_ranges,
	};

	s->outgoing.loop = loop;
	s->outgoing.dialer = dialer_new(loop);
	dialer_attach(s->outgoing.dialer, dialer_fd);
	config.outgoing = s->outgoing;
	config.outgoing.is_tenants = true;
	return hooks_open(&config, &s->hooks, err);
}

int senders_open_audit(struct senders *s, struct store *store, struct event_log *events,
                       const struct seal_key *seal_key, struct err *err)
{
	const struct config *c = s->config;
	const struct audit_sinks_config config = {
		.objects = {.outgoing = s->outgoing,
	                    .events = events,
	                    .store = store,
	                    .seal_key = seal_key,
	                    .credentials = &s->credentials,
	                    .url = c->audit_s3_url,
	                    .region = c->audit_s3_region,
	                    .interval_us = c->audit_s3_interval_ms * 1000},
		.syslog = {.outgoing = s->outgoing,
	                   .events = events,
	                   .store = store,
	                   .url = c->audit_syslog_url,
	                   .host_name = s->host_name},
	};

	return c->is_sweep ? 0 : audit_sinks_open(&config, &s->audit, err);
}

void senders_close(struct senders *s)
{
	audit_sinks_close(s->audit);
	object_credentials_done(&s->credentials);
	telemetry_headers_done(&s->headers);
	hooks_close(s->hooks);
	dialer_free(s->outgoing.dialer);
	tls_context_free(s->outgoing.tls);
}
