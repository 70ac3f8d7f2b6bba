// SPDX-License-Identifier: Apache-2.0
#include "daemon/dial_rules.h"

#include "audit/syslog_line.h"

#include <stdio.h>
#include <string.h>

static int add_range(struct dial_rules *rules, const char *text, struct err *err)
{
	const char *why = "there are too many";

	if (rules->n_ranges == DIAL_RANGES_MAX ||
	    cidr_parse(text, strlen(text), &rules->ranges[rules->n_ranges], &why) < 0)
		return err_field(err, "webhooks_allow", "'%s': %s", text, why);
	rules->n_ranges++;
	return 0;
}

int dial_rules_add_place(struct dial_rules *rules, const char *setting, const char *url,
                         struct err *err)
{
	const char *why = "";
	struct url parsed;

	if (!url || !*url)
		return 0;
	if (url_parse(url, strlen(url), &parsed, &why) < 0)
		return err_field(err, setting, "'%s': %s", url, why);
	if (rules->n_places == DIAL_PLACES_MAX)
		return err_field(err, setting, "there are too many places to connect to");
	rules->places[rules->n_places++] = (struct dial_place){parsed.host, parsed.port};
	return 0;
}

int dial_rules_read(struct dial_rules *rules, const struct config *config, struct err *err)
{
	struct syslog_place syslog;
	int r = 0;

	*rules = (struct dial_rules){0};
	for (char *const *list = config->webhooks_allow; r == 0 && list && *list; list++)
		r = add_range(rules, *list, err);
	if (r == 0)
		r = dial_rules_add_place(rules, "login.issuer", config->login_issuer, err);
	if (r == 0)
		r = dial_rules_add_place(rules, "telemetry.otlp_url", config->telemetry_url, err);
	if (r == 0)
		r = dial_rules_add_place(rules, "audit.s3_url", config->audit_s3_url, err);
	if (r == 0 && config->audit_syslog_url) {
		r = syslog_place_parse(config->audit_syslog_url, "audit.syslog_url", &syslog, err);
		if (r == 0)
			r = dial_rules_add_place(rules, "audit.syslog_url", syslog.url, err);
	}
	return r;
}

bool dial_rules_name(const struct dial_rules *rules, const char *host, uint16_t port)
{
	for (size_t i = 0; i < rules->n_places; i++) {
		const struct dial_place *place = &rules->places[i];
		char text[HOST_SIZE];

		if (place->host.is_name)
			(void)snprintf(text, sizeof(text), "%s", place->host.name.text);
		else
			address_format(&place->host.address, text);
		if (place->port == port && strcmp(text, host) == 0)
			return true;
	}
	return false;
}
