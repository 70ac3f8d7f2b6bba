// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/people.h"

#include "base/fd.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <string.h>

#define SECRET_SIZE 1024

/* The first line of the file. */
static int read_secret(struct people *p, const char *path, struct err *err)
{
	char text[SECRET_SIZE];
	int r = (int)fd_read_file(AT_FDCWD, path, text, sizeof(text));

	if (r < 0)
		return err_field(err, "login.client_secret_file", "'%s': %s", path, strerror(-r));
	text[strcspn(text, "\r\n")] = '\0';
	if (text[0] == '\0')
		return err_field(err, "login.client_secret_file", "'%s' is empty", path);
	p->client_secret = xstrdup(text);
	OPENSSL_cleanse(text, sizeof(text));
	return 0;
}

static char *join(char *const *words)
{
	char *all = xstrdup("");

	for (; words && *words; words++) {
		char *more = xasprintf("%s%s%s", all, all[0] ? " " : "", *words);

		free(all);
		all = more;
	}
	return all;
}

int people_prepare(struct people *p, const struct config *config, struct err *err)
{
	int r = role_map_parse(config->login_roles, "login.roles", &p->roles, err);

	if (r < 0 || !config->login_issuer)
		return r;
	p->scopes = config->login_scopes && *config->login_scopes ? join(config->login_scopes)
	                                                          : xstrdup("openid profile email");
	return config->login_secret_file ? read_secret(p, config->login_secret_file, err) : 0;
}

int people_open(struct people *p, const struct config *config,
                const struct people_services *services, struct err *err)
{
	const struct provider_config provider = {
		.outgoing = services->outgoing,
		.issuer = config->login_issuer,
		.client_id = config->login_client_id,
		.client_secret = p->client_secret,
	};
	const struct person_sessions_config sessions = {
		.store = services->store,
		.ring = services->ring,
		.events = services->events,
		.keys = services->keys,
		.roles = p->roles,
		.issuer = config->login_issuer,
		.roles_claim = config->login_roles_claim,
		.most_us = config->login_session_ms * 1000,
	};
	int r;

	if (!config->login_issuer)
		return 0;
	r = person_sessions_open(&sessions, &p->sessions, err);
	if (r < 0)
		return r;
	p->provider = provider_new(&provider);
	p->flow = login_flow_new(&(struct login_flow_config){.provider = p->provider,
	                                                     .sessions = p->sessions,
	                                                     .name = config->login_name,
	                                                     .scopes = p->scopes});
	p->renewal = renewal_new(services->loop, p->provider, p->sessions,
	                         config->login_check_ms * 1000);
	return 0;
}

void people_close(struct people *p)
{
	provider_free(p->provider); /* ends what the others wait for */
	renewal_free(p->renewal);
	login_flow_free(p->flow);
	person_sessions_free(p->sessions);
	role_map_free(p->roles);
	if (p->client_secret)
		OPENSSL_cleanse(p->client_secret, strlen(p->client_secret));
	free(p->client_secret);
	free(p->scopes);
}
